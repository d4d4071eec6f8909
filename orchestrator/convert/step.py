"""One program of a conversion: guarded, watched while its file grows, its memory measured."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backends.errors import EngineError
from orchestrator.environments.engine_steps import first_cause
from orchestrator.serving import guard, launch

GRACE_S = 2.0
POLL_S = 0.1
FULL_BYTES = 1 << 20
"""With less free the disk counts as full."""


@dataclass(frozen=True)
class Done:
    seconds: float
    peak_rss_bytes: int
    """Largest resident memory of one process, pages of mapped files included."""


def run(
    argv: Sequence[str],
    *,
    title: str,
    out: Path,
    log: Path,
    env: Mapping[str, str],
    on_bytes: Callable[[int], None],
) -> Done:
    """Run until it ends; `on_bytes` is told how large `out` is. Raises EngineError when it fails.

    However this process ends, the guard ends the program.
    """
    # Isolated and by path, as for engines.
    command = [sys.executable, "-I", "-S", guard.__file__, "--log", str(log)]
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, "--grace", str(GRACE_S), "--", *argv],
        env=launch.environment(os.environ, env, argv[0]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdout as lines:
            first = lines.readline().decode(errors="replace").strip()
        if not first.startswith("pid "):
            raise EngineError(f"cannot be run: {first.removeprefix('error ')}.", where=title)
        while True:
            # wait4 tells of this program alone; its children are counted once they are waited for.
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            on_bytes(out.stat().st_size if out.exists() else 0)
            time.sleep(POLL_S)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.wait()
    if process.returncode != 0:
        raise EngineError(
            f"failed with status {process.returncode}: {_cause(log, out)}",
            where=title,
            fix=f"Full output: {log}",
        )
    return Done(time.monotonic() - began, usage.ru_maxrss * 1024)


def _cause(log: Path, out: Path) -> str:
    if shutil.disk_usage(out.parent).free < FULL_BYTES:
        return "no space is left on the disk"  # of which programs tell in words of their own
    return first_cause(log.read_text(encoding="utf-8", errors="replace").splitlines())
