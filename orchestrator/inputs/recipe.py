"""The recipe: what is to be measured, as a person writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from backends.base import BackendName, Device, Speculation
from backends.errors import InputError
from backends.patch import parse_version
from orchestrator.comparing.certify import CONDITIONS
from orchestrator.inputs.document import Document, OneOrMany, Strict, said, suggestion
from orchestrator.inputs.modes import KNOWN_MODES, Mode, NamedMode


class RandomPrompts(Strict):
    """Prompts of ordinary token ids drawn at random, for timing at a given length."""

    random: int = Field(ge=1, le=1_000_000, description="Tokens of each prompt")


class Workload(Strict):
    """The requests every arm gets."""

    prompts: str | RandomPrompts = Field(
        description="A prompt set of the model, a .jsonl file, or {random: TOKENS}"
    )
    count: OneOrMany[Annotated[int, Field(ge=1, le=100_000)]] = Field(
        default=[24], description="Requests of a phase; or one number for each concurrency"
    )
    output_tokens: int = Field(
        default=128, ge=1, le=131_072, description="Most tokens of a reply, thinking included"
    )
    stop: Literal["fixed", "natural"] = Field(
        default="natural",
        description="fixed: end tokens get probability 0 until output_tokens are out; "
        "natural: a reply ends at its first end token",
    )
    modes: OneOrMany[NamedMode] = Field(
        default_factory=lambda: list(KNOWN_MODES.values()),
        description="greedy, temperature (T 1.0, top_p 0.95, top_k 64), or spelt out; left out, "
        "these two",
    )
    concurrency: OneOrMany[Annotated[int, Field(ge=1, le=1024)]] = Field(
        default=[1], description="Requests at a time; each value is measured by itself"
    )
    warmup: int = Field(default=2, ge=0, le=1000, description="Requests sent first, not counted")
    seed: int = Field(
        default=1, ge=0, le=2**31 - 1, description="The first request's; the next have the next"
    )

    @model_validator(mode="after")
    def _a_count_for_each(self) -> Workload:
        if len(self.count) not in {1, len(self.concurrency)}:
            raise ValueError(
                f"count holds {len(self.count)} numbers for {len(self.concurrency)} values of "
                "concurrency; give one, or one for each"
            )
        return self

    def count_at(self, concurrency: int) -> int:
        """Requests of a phase at this concurrency."""
        at = self.concurrency.index(concurrency) if len(self.count) > 1 else 0
        return self.count[at]

    @field_validator("modes", "concurrency")
    @classmethod
    def _distinct(cls, value: list[Any]) -> list[Any]:
        keys = [item.name if isinstance(item, Mode) else item for item in value]
        if len(set(keys)) != len(keys):
            raise ValueError(f"each may be given once, found {keys}")
        return value


class Serve(Strict):
    """How every arm's server is set, in no engine's words."""

    context_length: int = Field(default=4096, ge=16, description="Tokens per slot")
    kv_dtype: Literal["bf16", "f16", "f32"] = Field(
        default="bf16", description="Number format of the KV cache"
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="CPU threads; left out, the engine decides"
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Left out, a free one")
    start_timeout_s: float | None = Field(
        default=None, gt=0, description="Seconds a start may take; left out, each engine's own"
    )


def _a_version(value: str) -> str:
    try:
        parse_version(value)
    except InputError as error:
        raise ValueError(error.what) from None
    return value


class EngineChoice(Strict):
    """Which installation of an engine to use."""

    version: Annotated[str, AfterValidator(_a_version)] | None = Field(
        default=None, description="Left out, the one that is installed"
    )
    executable: str | None = Field(
        default=None, description="An interpreter that has the engine, or a llama-server"
    )


class Acceptance(Strict):
    """Acceptance simulated by the engine; its output is then meaningless."""

    simulate: list[Annotated[float, Field(ge=0, le=1)]] | None = Field(
        default=None, min_length=1, description="Marginal acceptance of positions 0 to K - 1"
    )
    length: float | None = Field(default=None, ge=1, description="Mean acceptance length")

    @model_validator(mode="after")
    def _one_of_both(self) -> Acceptance:
        if (self.simulate is None) == (self.length is None):
            raise ValueError("acceptance is either {simulate: [..]} or {length: L}")
        if self.simulate is not None and self.simulate != sorted(self.simulate, reverse=True):
            raise ValueError("marginal acceptance cannot rise with the position")
        return self


class ArmSpec(Strict):
    """One arm, or several where a field holds a list."""

    id: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9._-]*$",
        description="Left out, made of what sets the arm apart",
    )
    backend: OneOrMany[BackendName] = Field(description="The engine")
    speculation: OneOrMany[Speculation] = Field(
        default=["none"], description="The drafter, or none"
    )
    draft_tokens: OneOrMany[Annotated[int, Field(ge=1, le=1024)] | None] = Field(
        default=[None], description="K; left out, the most the drafter was trained for"
    )
    quantisation: OneOrMany[str] = Field(
        default=["bf16"], description="Of the target, as the model's file names it"
    )
    acceptance: Acceptance | None = Field(
        default=None, description="Left out, acceptance is what the drafter earns"
    )
    engine_args: list[str] = Field(
        default=[], description="Passed on as they are; museorch does not reason about them"
    )
    env: dict[str, str] = Field(default={}, description="Variables of the engine's process")

    @model_validator(mode="after")
    def _one_id_one_arm(self) -> ArmSpec:
        lists = (self.backend, self.speculation, self.draft_tokens, self.quantisation)
        if self.id is not None and any(len(values) > 1 for values in lists):
            raise ValueError("id names one arm, but a field here holds a list")
        return self


class Quality(Strict):
    """What quantising costs: llama.cpp's targets against one of them, on a text."""

    text: str = Field(description="A text file, relative to the recipe")
    tokens: int = Field(default=256, ge=2, le=100_000, description="How much of it is used")


class Order(Strict):
    """In which order arms run."""

    reference: str | None = Field(
        default=None, description="Id of the arm that runs first and again last"
    )
    blocks: int = Field(
        default=1, ge=1, le=50, description="How often every arm is started, in turns"
    )
    bookend: bool = Field(default=True, description="Repeat the reference at the end: drift")


class Recipe(Strict):
    """A comparison. The JSON schema of this class is `recipes/recipe.schema.json`."""

    schema_: Literal[1] = Field(alias="schema", description="Of this format")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="In reports and file names")
    description: str = Field(default="", description="Shown in reports")
    model: str = Field(description="A model of recipes/models, or a YAML file")
    device: Device = Field(default="cuda", description="What the engines run on")
    weights: Literal["real", "dummy"] = Field(
        default="real",
        description="dummy: of the model's shape, with random values: speeds only; "
        "the text is meaningless",
    )
    engines: dict[BackendName, EngineChoice] = Field(
        default={}, description="Left out, the engines that are installed"
    )
    workload: Workload = Field(description="The requests every arm gets")
    serve: Serve = Field(default=Serve(), description="How every arm's server is set")
    arms: list[ArmSpec] = Field(min_length=1, description="What is compared")
    order: Order = Field(default=Order(), description="In which order arms run")
    quality: Quality | None = Field(
        default=None,
        description="Measured after the arms; needs GGUF targets in two quantisations or more",
    )
    allow: list[str] = Field(
        default=[],
        description="Conditions that may differ between arms; such a comparison is labelled and is "
        "no speedup claim",
    )

    @field_validator("allow")
    @classmethod
    def _conditions(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in CONDITIONS:
                hint = suggestion(name, CONDITIONS) or f"Known: {', '.join(CONDITIONS)}."
                raise ValueError(f'"{name}" is not a condition. {hint}')
        return value


def with_concurrency(recipe: Recipe, values: list[int]) -> Recipe:
    """The recipe with another sweep. Raises InputError where the workload does not allow it."""
    data = {**recipe.workload.model_dump(), "concurrency": values}
    try:
        workload = Workload.model_validate(data)
    except ValidationError as error:
        raise InputError(said(error.errors()[0]), where="--concurrency") from None
    return recipe.model_copy(update={"workload": workload})


def load_recipe(path: Path) -> tuple[Recipe, Document]:
    """Read and validate a recipe. Raises InputError with file, line and field."""
    document = Document(path)
    return document.parse(Recipe), document
