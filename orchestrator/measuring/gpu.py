"""What nvidia-smi shows of an arm's GPUs while it runs: clocks, power, memory, who else is there.

Readings are kept as nvidia-smi prints them, one line for each GPU twice a second. NVML's counter of
energy would be exact where this samples, at the price of a library; a phase lasts long enough.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.planning import cards
from orchestrator.planning.cards import TIMEOUT_S, Card

FIELDS = (
    "timestamp",
    "index",
    "clocks.sm",
    "power.draw",
    "utilization.gpu",
    "memory.used",
    "clocks_event_reasons.active",
)
PERIOD_MS = 500
PATIENCE_S = 5.0
POWER_CAP = "power cap"
SLOWDOWNS = {
    0x04: POWER_CAP,
    0x08: "hardware slowdown",
    0x20: "thermal slowdown by the driver",
    0x40: "thermal slowdown by the hardware",
    0x80: "power brake",
}
"""Bits of the clocks' event reasons, as NVML defines them."""
FAULTS = frozenset(SLOWDOWNS.values()) - {POWER_CAP}
"""A power cap is the power limit at work, which the hardware condition already holds."""


@dataclass(frozen=True)
class Reading:
    """One GPU at one time. Some boards do not tell all; what is not told is None."""

    unix_ns: int
    card: str
    clock_mhz: float
    power_w: float | None
    """The driver's mean of the last second, on boards since Ampere."""
    used_percent: float | None
    memory_mib: float | None
    """Of the whole GPU, whoever uses it."""
    reasons: int


def others(used: Sequence[Card] | str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Compute processes on these GPUs. Before the arm's own server starts, all are foreign.

    Those of the arm before may show for a moment longer, so some are asked for again.
    `{"processes": None, "reason": ...}` where that is not known.
    """
    if isinstance(used, str):
        return {"processes": None, "reason": used}
    deadline = time.monotonic() + patience_s
    while (found := _processes(used))["processes"] and time.monotonic() < deadline:
        time.sleep(PERIOD_MS / 1000)
    return found


def _processes(used: Sequence[Card]) -> dict[str, Any]:
    argv = [_tool(), *cards.ask("--query-compute-apps=pid,process_name,used_memory", used)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"processes": None, "reason": f"nvidia-smi: {error}"}
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        return {"processes": None, "reason": f"nvidia-smi: {_last_line(text)}"}
    return {"processes": [line.strip() for line in text.splitlines() if line.strip()]}


@contextmanager
def clocks(used: Sequence[Card] | str, log: Path) -> Iterator[dict[str, Any]]:
    """Adds readings to `log`, and at the end their summary to the yielded mapping."""
    seen: dict[str, Any] = {}
    if isinstance(used, str):
        seen["reason"] = used
        yield seen
        return
    query = cards.ask(f"--query-gpu={','.join(FIELDS)}", used)
    # What leads from the time that nvidia-smi prints to the clock of the samples.
    seen["monotonic_to_unix_ns"] = time.time_ns() - time.monotonic_ns()
    with log.open("ab") as output:  # a pipe would be full after some minutes
        begin = output.tell()
        process = subprocess.Popen(
            [_tool(), *query, f"--loop-ms={PERIOD_MS}"],
            env={**os.environ, "TZ": "UTC0"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield seen
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
            seen.update(summary(log.read_bytes()[begin:].decode(errors="replace")))


def readings(text: str) -> list[Reading]:
    """What `clocks` keeps; lines that are no reading are left out."""
    return [found for line in text.splitlines() if (found := _reading(line)) is not None]


def summary(text: str) -> dict[str, Any]:
    """Clock in MHz and power in W over the readings of a working GPU; reasons for slowdowns."""
    rows = readings(text)
    busy = [row for row in rows if row.used_percent != 0] or rows
    if not busy:
        return {"reason": f"nvidia-smi: {_last_line(text)}"}
    clock = [row.clock_mhz for row in busy]
    power = [row.power_w for row in busy if row.power_w is not None]
    active = {name for bit, name in SLOWDOWNS.items() if any(row.reasons & bit for row in busy)}
    return {
        "readings": len(busy),
        "sm_mhz": {"min": min(clock), "median": statistics.median(clock), "max": max(clock)},
        "power_w": statistics.fmean(power) if power else None,
        "slowdowns": sorted(active),
    }


def _reading(line: str) -> Reading | None:
    cells = [cell.strip() for cell in line.split(",")]
    try:
        stamp, card, clock, power, used, memory, reasons = cells
        moment = datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
        return Reading(
            round(moment.timestamp() * 1e6) * 1000,
            card,
            float(clock),
            _told(power),
            _told(used),
            _told(memory),
            int(reasons, 16),
        )
    except ValueError:
        return None


def _told(cell: str) -> float | None:
    return None if cell.startswith("[") else float(cell)


def _tool() -> str:
    """It was there when the GPUs were listed."""
    return shutil.which("nvidia-smi") or "nvidia-smi"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
