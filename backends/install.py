"""How an engine's environment is made, as data. `orchestrator.engines` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backends.base import Device


@dataclass(frozen=True)
class Run:
    """Run a command. `{root}` and `{python}` stand for the environment and its interpreter."""

    title: str
    argv: tuple[str, ...]
    cwd: str = "{root}"
    env: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    """A failure is noted and the next step goes on."""


@dataclass(frozen=True)
class Write:
    """Write a text file below the environment."""

    title: str
    path: str
    text: str


Step = Run | Write


@dataclass(frozen=True)
class Environment:
    """One engine at one version for one device."""

    backend: str
    version: str
    device: Device
    steps: tuple[Step, ...]
    executable: str
    """Relative to the environment: `bin/python` or `bin/llama-server`."""
    disk_bytes: int
    """What a finished environment and its making need, for a check before the start."""
