"""The signatures: what goes wrong, how a log shows it, why, and what to do.

Kept as data in `orchestrator/signatures/`, one file per engine and `any.yaml` for all.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from backends import BACKENDS
from backends.base import BackendName
from orchestrator.diagnose.patterns import longest_literal

Level = Literal["error", "consequence", "warning"]


def _specific(pattern: str) -> str:
    if len(longest_literal(pattern)) < 4:
        raise ValueError(f"fits almost any line: {pattern}")
    return pattern


Text = Annotated[str, AfterValidator(_specific)]


def _version_range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(f"not a version range: {text}") from error
    return text


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measured(_Data):
    """A pattern whose number must lie in a range, on most of the lines that show it."""

    text: Text
    at_least: float | None = None
    at_most: float | None = None
    times: int = 1
    """How many lines must fulfil it at least."""

    def holds(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


class Signature(_Data):
    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    title: str
    level: Level = "error"
    """error: a cause. consequence: a report that something else failed. warning: the server
    runs, but not as meant."""
    patterns: tuple[Measured | Text, ...] = Field(min_length=1)
    requires: tuple[Text, ...] = ()
    """Patterns that must all appear somewhere in the log."""
    unless: tuple[Text, ...] = ()
    """Patterns of which none may appear."""
    also_warnings: bool = False
    """Whether a line that the engine marks as a warning or information shows an error too."""
    cause: str
    fix: str
    versions: Annotated[str, AfterValidator(_version_range)] | None = None
    """Engine versions it is seen in (for llama.cpp, build numbers); None is any."""
    source: str

    def reads(self, level: str | None) -> bool:
        """Whether a line of this log level can show the signature."""
        quiet = level in ("DEBUG", "INFO", "WARNING")
        return not quiet or self.level == "warning" or self.also_warnings


class SignatureFile(_Data):
    engine: BackendName | None
    markers: tuple[Text, ...] = ()
    """Text that only this engine's logs contain."""
    version_after: tuple[Text, ...] = ()
    """Text directly before the engine's version."""
    benign: tuple[Text, ...] = ()
    """Lines that look like errors in the log of a healthy server."""
    handled: tuple[Text, ...] = ()
    """What stands over a traceback that was caught and has no effect."""
    consequences: tuple[Text, ...] = ()
    """Lines that only report that something else failed."""
    stops: tuple[Text, ...] = ()
    """Lines that say the server was told to stop; what fails after them is no cause."""
    signatures: tuple[Signature, ...]


@cache
def catalogue() -> tuple[SignatureFile, ...]:
    """Every signature file, engines first: where a line fits two, the more specific comes first."""
    folder = files("orchestrator") / "signatures"
    paths = [folder / f"{name}.yaml" for name in (*BACKENDS, "any")]
    return tuple(
        SignatureFile.model_validate(yaml.safe_load(path.read_text("utf-8")))
        for path in paths
        if path.is_file()
    )
