"""How an engine's environment is made, as data. `orchestrator.environments` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backends.base import Device


@dataclass(frozen=True)
class Run:
    """Run a command. In `argv`, `cwd` and the values of `env`, `{root}` stands for the
    environment, `{python}` for its interpreter (museorch's own until it has one), `{packages}`
    for its site-packages and `{jobs}` for the number of CPU cores."""

    title: str
    argv: tuple[str, ...]
    cwd: str = "{root}"
    env: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    """A failure is noted and the next step goes on."""


@dataclass(frozen=True)
class Write:
    """Write a text file below the environment; `path` may start with `{packages}`."""

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
    tools: tuple[str, ...] = ()
    """Programs that must be on PATH, for instance `c++`."""
    newest_python: tuple[int, int] | None = None
    """The newest Python that every wheel in it exists for; None where it does not matter."""


def pip(*arguments: str) -> tuple[str, ...]:
    """`pip install` in the environment, never asking anything."""
    return ("{python}", "-m", "pip", "install", "--no-input", "--progress-bar=off", *arguments)


def cpu_torch(torch: str, torchvision: str) -> tuple[Step, ...]:
    """torch and torchvision as CPU builds where PyTorch's index is reachable, else the default
    builds, which work too but are larger. `+cpu` sorts after the plain version, so pip takes it
    when it sees it. `--no-deps` keeps pip from asking that index for anything else: an index
    that does not answer then costs at most two timeouts for each of the two."""
    index = "https://download.pytorch.org/whl/cpu"
    return (
        Run(
            f"Install torch {torch}",
            (
                *pip("--no-deps", f"torch=={torch}", f"torchvision=={torchvision}"),
                *("--extra-index-url", index, "--retries", "1", "--timeout", "10"),
            ),
        ),
    )


TORCHVISION_HOOK: tuple[Step, ...] = (
    Write(
        "Write the torchvision hook",
        "{packages}/museorch_torchvision.py",
        Path(__file__).with_name("torchvision_hook.py").read_text(encoding="utf-8"),
    ),
    Write(
        "Start the torchvision hook",
        "{packages}/museorch_torchvision.pth",
        "import museorch_torchvision; museorch_torchvision.install()\n",
    ),
)
"""See `backends/torchvision_hook.py`."""
