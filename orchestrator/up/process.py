"""Processes by pid and start, so that another process with a recycled pid is not taken for them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
POLL_S = 0.05


@dataclass(frozen=True)
class Process:
    pid: int
    mark: str
    """Boot and clock tick at which it was started: no two processes share it."""

    @property
    def alive(self) -> bool:
        return mark(self.pid) == self.mark


def process(pid: int) -> Process:
    """The one that runs now; it counts as gone where there is none."""
    return Process(pid, mark(pid) or "gone")


def mark(pid: int) -> str | None:
    """None where there is no such process, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        # The command, in parentheses, may hold anything: count from its end.
        fields = stat.rpartition(")")[2].split()
        state, started = fields[0], fields[19]
        boot = BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, IndexError):
        return None
    return None if state in "ZX" else f"{boot}:{started}"


def end(victim: Process, limit_s: float) -> bool:
    """SIGTERM, then a wait of `limit_s`. Whether it is gone."""
    if victim.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGTERM)
    deadline = time.monotonic() + limit_s
    while victim.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def kill(victim: Process) -> None:
    """SIGKILL to it and to the group it leads."""
    if victim.alive:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(victim.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)


def of_group(leader: int, folder: Path) -> list[Process]:
    """What runs in `folder` of the group that `leader` led; it may be gone itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(entry.name)
            if os.getpgid(pid) == leader and os.readlink(entry / "cwd") == str(folder.resolve()):
                found.append(process(pid))
    return found
