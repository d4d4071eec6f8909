"""Published speeds with the conditions they hang on: recipes/claims/*.yaml.

A condition that was not published is unknown, and unknown is not equal to anything.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from backends.base import BackendName
from backends.errors import InputError
from orchestrator.inputs.document import Document, Strict
from orchestrator.inputs.models import RECIPES, quantisation_names

CLAIMS = RECIPES / "claims"
NOT_PUBLISHED = "not published"

Subject = Literal["none", "dflash", "dspark", "dflash2"]
Rate = Literal["per request", "all streams together", "highest sustained"]
Share = Annotated[float, Field(ge=0, le=1)]


class Sampling(Strict):
    temperature: float = Field(ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)

    def __str__(self) -> str:
        if self.temperature == 0:
            return "greedy"
        top_p = f"{self.top_p:g}" if self.top_p is not None else "?"
        top_k = f"{self.top_k}" if self.top_k is not None else "?"
        return f"T {self.temperature:g}, top_p {top_p}, top_k {top_k}"


class Conditions(Strict):
    """What was published of a measurement. None is: not published."""

    hardware: str | None = Field(default=None, description="As `RTX 5090` or `2 x RTX 5090`")
    engine: BackendName | None = None
    build: str | None = Field(default=None, description="Version, patches, parallelism")
    quantisation: str | None = None
    sampling: Sampling | None = None
    draft_tokens: int | None = Field(default=None, ge=1)
    concurrency: int | str | None = None
    prompts: str | None = None
    context: str | None = None
    output: str | None = None
    rate: Rate | None = None


class Number(Strict):
    """A rate in tok/s, an acceptance length in tokens/step, or both."""

    speculation: Subject
    drafter: str | None = Field(default=None, description="Whose, where there are several")
    value: float | None = Field(default=None, gt=0)
    about: bool = False
    acceptance_length: float | None = Field(default=None, ge=1)
    draft_tokens: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)
    rate: Rate | None = None
    at: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Number:
        if self.value is None and self.acceptance_length is None:
            raise ValueError("a number needs a value or an acceptance_length")
        return self

    def __str__(self) -> str:
        rate = f"{'~' if self.about else ''}{self.value:g} tok/s" if self.value else None
        length = f"{self.acceptance_length:g} tokens/step" if self.acceptance_length else None
        numbers = ", ".join(text for text in (rate, length) if text)
        of = (
            self.drafter,
            f"K {self.draft_tokens}" if self.draft_tokens else None,
            f"{self.concurrency} at a time" if self.concurrency else None,
            self.rate,
            f"at {self.at}" if self.at else None,
        )
        told = ", ".join(text for text in of if text)
        return f"{self.speculation} {numbers}" + (f" ({told})" if told else "")


class ClaimedRatio(Strict):
    """Rate of a over that of b."""

    a: Subject
    b: Subject
    value: float = Field(gt=0)
    at: str | None = None


class Claim(Strict):
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    source: str | None = None
    conditions: Conditions
    numbers: list[Number] = Field(min_length=1)
    ratios: list[ClaimedRatio] = []
    acceptance: dict[Subject, list[Share]] = Field(
        default={}, description="Marginal acceptance by position"
    )
    note: str | None = None

    @field_validator("acceptance")
    @classmethod
    def _falling(cls, value: dict[Subject, list[float]]) -> dict[Subject, list[float]]:
        for name, shares in value.items():
            if shares != sorted(shares, reverse=True):
                raise ValueError(f"marginal acceptance of {name} cannot rise with the position")
        return value

    def headline(self) -> str:
        """The ratio it is known for, else its rates."""
        if self.ratios:
            return ", ".join(
                f"{r.a} {r.value:g}x {r.b}" + (f" at {r.at}" if r.at else "") for r in self.ratios
            )
        return self.rates()

    def rates(self) -> str:
        return "; ".join(map(str, self.numbers))

    def told(self, name: Literal["draft_tokens", "concurrency"]) -> list[int | str]:
        """Of the claim, else of its numbers."""
        value = getattr(self.conditions, name)
        of_numbers = {getattr(number, name) for number in self.numbers} - {None}
        return [value] if value is not None else sorted(of_numbers)


class Noise(Strict):
    """How far equal things were seen apart: what a difference must exceed to mean anything."""

    of: Literal["step time", "acceptance length"]
    hardware: str
    within: float = Field(gt=0, description="step time: a share; acceptance length: tokens/step")
    concurrency: int | None = Field(default=None, ge=1)
    calls: int | None = Field(default=None, ge=1, description="Requests it rests on")

    def __str__(self) -> str:
        size = f"{self.within:.1%}" if self.of == "step time" else f"{self.within:g} tokens/step"
        at = f", {self.concurrency} at a time" if self.concurrency else ""
        on = f", over {self.calls:,} calls" if self.calls else ""
        return f"{self.of} on {self.hardware}{at}{on}: within {size}"


class ClaimFile(Strict):
    schema_: Literal[1] = Field(alias="schema")
    model: str = Field(description="Identity of the target's weights, and of a model file")
    source: str
    claims: list[Claim] = Field(min_length=1)
    noise: list[Noise] = []


@dataclass(frozen=True)
class Published:
    """A claim with what its file says about all of its claims."""

    claim: Claim
    """Its quantisation under the name that the model's artefacts have."""
    model: str
    source: str
    quantisation_named: str | None = None
    """What the report called it, where that is another name."""


def load_claims(folder: Path = CLAIMS) -> dict[str, Published]:
    """Every claim by its id. Raises InputError with file, line and field."""
    found: dict[str, Published] = {}
    for document, file in _files(folder):
        other_names = quantisation_names(file.model)
        for index, claim in enumerate(file.claims):
            if claim.id in found:
                raise InputError(
                    f'two claims are called "{claim.id}".',
                    where=document.where(("claims", index, "id")),
                )
            named = claim.conditions.quantisation
            known = other_names.get(named) if named is not None else None
            if known is not None:
                conditions = claim.conditions.model_copy(update={"quantisation": known})
                claim = claim.model_copy(update={"conditions": conditions})
            found[claim.id] = Published(
                claim, file.model, claim.source or file.source, named if known else None
            )
    return found


def load_noise(folder: Path = CLAIMS) -> list[tuple[Noise, str]]:
    """Every published noise floor, with its source."""
    return [(noise, file.source) for _, file in _files(folder) for noise in file.noise]


def _files(folder: Path) -> Iterator[tuple[Document, ClaimFile]]:
    for path in sorted(folder.glob("*.yaml")):
        document = Document(path)
        yield document, document.parse(ClaimFile)


def named(claims: Mapping[str, Published], name: str) -> Published:
    """Raises InputError, with a suggestion, for a claim that is not there."""
    if name not in claims:
        close = difflib.get_close_matches(name, claims, n=1)
        hint = f'Did you mean "{close[0]}"?' if close else "`museorch claims list` shows them."
        raise InputError(f'no claim is called "{name}".', fix=hint)
    return claims[name]


def rows(claims: Mapping[str, Published]) -> Sequence[Mapping[str, Any]]:
    """All claims as plain data."""
    return [
        {
            **item.claim.model_dump(mode="json"),
            "model": item.model,
            "source": item.source,
            "quantisation_named": item.quantisation_named,
        }
        for item in claims.values()
    ]
