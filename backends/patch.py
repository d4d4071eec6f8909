"""What an engine patch is: exact text edits as data, with the reason and the way to retire it.

Nothing here touches a disk. `orchestrator.patching` looks at an environment, applies and reverts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from backends.base import Device, Speculation
from backends.errors import InputError


@dataclass(frozen=True)
class Edit:
    """Replace a text that must occur exactly once in a file."""

    file: str
    """Relative to site-packages, with forward slashes."""
    find: str
    replace: str


@dataclass(frozen=True)
class Evidence:
    """A text in a file that settles a question about it."""

    file: str
    text: str


@dataclass(frozen=True)
class Patch:
    """One fault of one engine and the edits that mend it, all of them or none."""

    id: str
    engine: Literal["vllm", "sglang"]
    title: str
    why: str
    symptom: str
    """The message or behaviour a user meets without it."""
    upstream: str
    """Where the engine's project deals with it, or `none known`."""
    edits: tuple[Edit, ...]
    devices: tuple[Device, ...] = ("cpu", "cuda")
    speculation: tuple[Speculation, ...] = ("dflash", "dspark")
    """The kinds of arm that need it. Empty: only what `only_for` says, so apply it by name."""
    only_for: str = ""
    since: str | None = None
    """First engine version with the fault, None where it is as old as the file."""
    until: str | None = None
    """First engine version without it, None while the newest one checked still has it."""
    precondition: tuple[Evidence, ...] = ()
    """Texts that must all be there, else the fault cannot occur."""
    fixed_by: tuple[Evidence, ...] = ()
    """Any one of these means that the engine has its own fix."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(edit.file for edit in self.edits))

    def concerns(self, version: str) -> bool:
        """Whether the fault is in this engine version, by the declared range."""
        found = parse_version(version)
        if self.since is not None and found < Version(self.since):
            return False
        return self.until is None or found < Version(self.until)

    def wanted(self, version: str, device: Device, speculation: Speculation) -> bool:
        """Whether an arm needs it, by declaration. The files decide when it is applied."""
        return device in self.devices and speculation in self.speculation and self.concerns(version)


def needed(
    patches: Mapping[str, Patch], version: str, device: Device, speculation: Speculation
) -> tuple[str, ...]:
    """Ids of the patches that an arm needs, in the order in which they are applied."""
    return tuple(
        name for name, patch in patches.items() if patch.wanted(version, device, speculation)
    )


@dataclass(frozen=True)
class Rule:
    """A known fault that a launch setting or a config overlay solves, so no file is edited."""

    id: str
    engine: Literal["vllm", "sglang"]
    title: str
    symptom: str
    solution: str


def parse_version(text: str) -> Version:
    """Raises InputError for what is no version number."""
    try:
        version = Version(text)
    except InvalidVersion:
        raise InputError(
            f"engine version {text!r} is not a version number.",
            fix="Give it as the engine's package metadata does, for instance 0.32.0.",
        ) from None
    # A development build of 0.33 has what 0.33 has, so compare by release.
    return Version(version.base_version)
