"""Facts about the machine, gathered and not declared."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from orchestrator.planning import cards
from orchestrator.planning.cards import Card


def museorch_version() -> str:
    try:
        return version("museorch")
    except PackageNotFoundError:  # run from its source tree, not installed
        project = Path(__file__).parents[2] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def usable_threads() -> int:
    """CPU threads this process may use; all of them where the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gather() -> dict[str, Any]:
    """Machine facts for environment.json. What could not be read is None."""
    return {
        "museorch": {"version": museorch_version(), "git": _git()},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {
            "model": _cpu_model(),
            "cores": psutil.cpu_count(logical=False),
            "threads": os.cpu_count(),
            "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        },
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": os.getloadavg(),
        "gpus": cards.visible(),
    }


def hardware(
    environment: dict[str, Any], device: str, used: Sequence[Card] | None = None
) -> str | None:
    """What an arm of `device` ran on, as one comparable string.

    `used` are its GPUs; where they are not told, the first that was visible.
    """
    if device == "cpu":
        cpu = environment["cpu"]
        return f"{cpu['model'] or platform.machine()}, {cpu['usable'] or cpu['threads']} threads"
    found = used if used is not None else (environment["gpus"] or [])[:1]
    if not found:
        return None
    names = [
        f"{gpu['name']}, driver {gpu['driver_version']}, {gpu['power.limit']} W" for gpu in found
    ]
    return f"{len(names)} x {names[0]}" if len(set(names)) == 1 else "; ".join(names)


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or None


def _git() -> dict[str, Any] | None:
    """Commit of the checkout museorch runs from; None for an installed package."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    commit = _run(["git", "-C", str(here), "rev-parse", "HEAD"])
    changes = _run(["git", "-C", str(here), "status", "--porcelain", "--untracked-files=no"])
    if commit is None or changes is None:
        return None
    return {"commit": commit.strip(), "dirty": bool(changes.strip())}


def _run(argv: list[str]) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
