"""One step of an engine's build recipe: carry it out, and say why it failed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from backends.install import Run, Write
from orchestrator.measuring.environment import usable_threads

GRACE_S = 5.0
"""Seconds between asking a step to end and ending it."""

_LEADS_ASTRAY = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
"""Variables that would send a step's packages elsewhere, or bring in others."""


def run(step: Run, root: Path, output: BinaryIO) -> str | None:
    """Run one step; None when it went well, else the cause."""
    argv = [filled(word, root) for word in step.argv]
    env = {key: value for key, value in os.environ.items() if key not in _LEADS_ASTRAY}
    env |= {"PYTHONNOUSERSITE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env |= {key: filled(value, root) for key, value in step.env.items()}
    begin = output.tell()
    try:
        process = subprocess.Popen(
            argv,
            cwd=filled(step.cwd, root),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=False,  # the lock's descriptor goes along, see `locked`
        )
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    try:
        status = process.wait()
    finally:
        _end(process)
    if status < 0:
        return f"{argv[0]} was ended by {signal.Signals(-status).name}"
    output.seek(begin)
    lines = output.read().decode("utf-8", "replace").splitlines()
    return None if status == 0 else first_cause(lines)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the step's process group, whatever is left of it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write(step: Write, root: Path) -> str | None:
    path = root / filled(step.path, root)
    if not path.resolve().is_relative_to(root.resolve()):
        return f"{step.path} is outside the environment"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text, encoding="utf-8")
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def filled(word: str, root: Path) -> str:
    own = root / "bin" / "python"
    places = {
        "{root}": str(root),
        "{python}": str(own) if own.exists() else sys.executable,
        "{packages}": str(packages(root)),
        "{jobs}": str(usable_threads()),
    }
    for name, value in places.items():
        word = word.replace(name, value)
    return word


def packages(root: Path) -> Path:
    """Where a virtual environment at `root`, made by this Python, has its packages."""
    return root / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def first_cause(output: Sequence[str]) -> str:
    """The first line that names a cause, for a person who has not seen the log."""
    lines = [line.strip() for line in output if line.strip()]
    offline = any("after connection broken by" in line for line in lines)
    for pattern in _CAUSES:
        for index, line in enumerate(lines):
            if not pattern.search(line) or _HIDES_CAUSE.search(line):
                continue
            if line.startswith("CMake Error at") and index + 1 < len(lines):
                return f"{line} {lines[index + 1]}"
            if offline and line.startswith("ERROR: "):  # pip's, of whatever it then lacked
                return f"{line} (the package index could not be reached)"
            return line
    return lines[-1] if lines else "it printed nothing"


_HIDES_CAUSE = re.compile(r"^WARNING: |subprocess-exited-with-error|metadata-generation-failed")
"""What pip prints around, and before, the failure it reports."""

_CAUSES = (
    re.compile(r"No space left on device|Killed signal terminated|MemoryError|Out of memory"),
    re.compile(r"^(\S+: )?(fatal )?error[: ]|CMake Error|: error: |: fatal error: ", re.IGNORECASE),
    re.compile(r"^(\w+\.)*\w*(Error|Exception|Unavailable): "),
    re.compile(r"not created successfully|No module named|cannot |not found|failed", re.IGNORECASE),
)
