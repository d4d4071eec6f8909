"""What happens around a phase while it is measured: the same server throughout, and no one else.

Facts only. What they mean for a result is for `validity` and `certify` to say.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from orchestrator.measuring import gpu
from orchestrator.planning.cards import Card


@contextmanager
def phase(
    pid: int, port: int, used: Sequence[Card] | str, gpu_log: Path
) -> Iterator[dict[str, Any]]:
    """Watch the server `pid` on `port`. The yielded mapping is complete once this is left.

    `used` are its GPUs, or why there are none to watch.
    """
    seen: dict[str, Any] = {"server": {"before": server(pid, port)}}
    before = _processor_time(pid)
    with gpu.clocks(used, gpu_log) as clocks:
        seen["gpu"] = clocks
        yield seen
    after = _processor_time(pid)
    seen["server"]["after"] = server(pid, port)
    seen["load"] = {
        "threads": os.cpu_count(),
        "foreign_threads": _foreign(before, after),
        "average_before": before.load,
        "average_after": after.load,
    }


def server(pid: int, port: int) -> dict[str, Any]:
    """Which process it is, since when, and whether it is the one that listens on the port."""
    try:
        process = psutil.Process(pid)
        started = process.create_time()
    except psutil.NoSuchProcess:
        return {"pid": pid, "started": None, "listens": False}
    return {
        "pid": pid,
        "started": started,
        "listens": any(_listens(member, port) for member in _family(process)),
    }


def _listens(process: psutil.Process, port: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            for connection in process.net_connections("tcp")
        )
    return False


def _family(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return [process]


@dataclass(frozen=True)
class _Processor:
    """Processor seconds until now, and the load average of the last minute."""

    wall: float
    machine: float
    own: float
    load: float


def _processor_time(pid: int) -> _Processor:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # `guest` is counted in `user` already.
    machine = sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    own = 0.0
    with contextlib.suppress(psutil.Error):
        for process in (*_family(psutil.Process(pid)), psutil.Process()):
            with contextlib.suppress(psutil.Error):
                used = process.cpu_times()
                own += used.user + used.system + used.children_user + used.children_system
    return _Processor(time.monotonic(), machine, own, os.getloadavg()[0])


def _foreign(before: _Processor, after: _Processor) -> float | None:
    """Hardware threads kept busy by others on average; None over less than a second.

    The kernel counts in hundredths of a second, which says nothing about less.
    """
    wall = after.wall - before.wall
    if wall < 1.0:
        return None
    busy = (after.machine - before.machine) - (after.own - before.own)
    return max(0.0, round(busy / wall, 3))
