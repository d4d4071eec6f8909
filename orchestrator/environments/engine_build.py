"""Carry out an engine's build recipe in one folder: all of it, or nothing.

The manifest is written last. A folder without one is half-made: it is removed when a step fails,
on Ctrl-C, when museorch is told to stop, and at the next install.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from types import FrameType
from typing import Any

from backends.errors import EngineError
from backends.install import Environment, Run, Write
from orchestrator.environments.engine_steps import packages, run, write

MANIFEST = "museorch.json"
Report = Callable[[str], None]


def build(environment: Environment, root: Path, log: Path, report: Report) -> None:
    """Make `root` from `environment`; every step's output goes to `log`.

    Raises EngineError when something needed is missing or a step fails.
    """
    _check_needs(environment, root)
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    discard(root)
    try:
        with stoppable():
            root.mkdir(parents=True)
            steps = _carry_out(environment, root, log, report)
            manifest = {
                "backend": environment.backend,
                "version": environment.version,
                "device": environment.device,
                "executable": environment.executable,
                "python": ".".join(map(str, sys.version_info[:3])),
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "duration_s": round(time.monotonic() - began, 1),
                "steps": steps,
                "fingerprint": _fingerprint(environment, root),
            }
            draft = root / f"{MANIFEST}.new"
            draft.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            draft.replace(root / MANIFEST)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise


def discard(root: Path) -> None:
    """Delete an environment, the manifest first: what a stop leaves then counts as half-made."""
    try:
        (root / MANIFEST).unlink(missing_ok=True)
        if root.exists():
            shutil.rmtree(root)
    except OSError as error:
        raise EngineError(f"cannot be deleted: {error.strerror}.", where=str(root)) from None


@contextmanager
def locked(path: Path, report: Report) -> Iterator[None]:
    """Hold a file lock; where another process has it, say so once and wait.

    The descriptor is inherited by the steps, so that a step which outlives a killed museorch
    still keeps the next install out of its folder.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
    except OSError as error:
        raise EngineError(
            f"cannot be written: {error.strerror}.",
            where=str(path),
            fix="Set MUSEORCH_HOME to a folder that can.",
        ) from None
    with handle:
        os.set_inheritable(handle.fileno(), True)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another museorch that holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _check_needs(environment: Environment, root: Path) -> None:
    label = f"{environment.backend} {environment.version} ({environment.device})"
    newest = environment.newest_python
    if newest is not None and sys.version_info[:2] > newest:
        have = ".".join(map(str, sys.version_info[:2]))
        want = ".".join(map(str, newest))
        raise EngineError(
            f"{label} has packages up to Python {want}; museorch runs on Python {have}.",
            fix=f"Install museorch with Python {want}, for instance: python{want} -m venv .venv",
        )
    missing = [tool for tool in environment.tools if shutil.which(tool) is None]
    if missing:
        raise EngineError(
            f"{label} is built from source and needs {' and '.join(missing)} on PATH.",
            fix="Install the CUDA toolkit, or use --device cpu."
            if "nvcc" in missing
            else "Install a C++ compiler, for instance: apt install build-essential",
        )
    place = root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < environment.disk_bytes:
        raise EngineError(
            f"{label} needs {environment.disk_bytes / 1e9:.1f} GB, {free / 1e9:.1f} GB are free.",
            where=str(place),
            fix="Free some space, or set MUSEORCH_HOME to a folder on another disk.",
        )


def _carry_out(
    environment: Environment, root: Path, log: Path, report: Report
) -> list[dict[str, Any]]:
    done = []
    total = len(environment.steps)
    with log.open("w+b", buffering=0) as output:  # unbuffered: the steps share its position
        for number, step in enumerate(environment.steps, 1):
            report(f"[{number}/{total}] {step.title}")
            output.write(f"=== [{number}/{total}] {step.title}\n".encode())
            start = time.monotonic()
            cause = write(step, root) if isinstance(step, Write) else run(step, root, output)
            seconds = round(time.monotonic() - start, 1)
            done.append({"title": step.title, "seconds": seconds, "ok": cause is None})
            if cause is None:
                continue
            if isinstance(step, Run) and step.optional:
                report(f"[{number}/{total}] {step.title}: left out, {cause}")
                continue
            raise EngineError(
                f"step {number} of {total}, {step.title!r}, failed: {cause}",
                where=f"{environment.backend} {environment.version} ({environment.device})",
                fix=f"Full output: {log}",
            )
    return done


def _fingerprint(environment: Environment, root: Path) -> str:
    """SHA-256 of the frozen package list, or of the binary where there are no packages."""
    if not (root / "bin" / "python").exists():
        return hashlib.sha256((root / environment.executable).read_bytes()).hexdigest()
    found = distributions(path=[str(packages(root))])
    frozen = sorted(f"{package.name}=={package.version}" for package in found)
    return hashlib.sha256("\n".join(frozen).encode()).hexdigest()


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind like Ctrl-C does, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
