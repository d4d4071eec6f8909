"""What nvidia-smi shows of the GPUs while an arm runs: clocks, power, and who else is there."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backends.base import Device

NO_GPU = "no GPU in use"
FIELDS = ("clocks.sm", "power.draw", "utilization.gpu", "clocks_event_reasons.active")
FORMAT = ("--format=csv,noheader,nounits",)
PERIOD_MS = 500
TIMEOUT_S = 20.0
PATIENCE_S = 5.0
SLOWDOWNS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal slowdown by the driver",
    0x40: "thermal slowdown by the hardware",
    0x80: "power brake",
}
"""Bits of the clocks' event reasons, as NVML defines them."""
FAULTS = frozenset(SLOWDOWNS.values()) - {"power cap"}
"""A power cap is the power limit at work, which the hardware condition already holds."""


def others(device: Device, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Compute processes on the GPUs. Called before the arm's own server starts, all are foreign.

    Those of the arm before may show for a moment longer, so some are asked for again.
    `{"processes": None, "reason": ...}` where that is not known.
    """
    deadline = time.monotonic() + patience_s
    while (found := _processes(device))["processes"] and time.monotonic() < deadline:
        time.sleep(PERIOD_MS / 1000)
    return found


def _processes(device: Device) -> dict[str, Any]:
    tool, reason = _tool(device)
    if tool is None:
        return {"processes": None, "reason": reason}
    argv = [tool, "--query-compute-apps=pid,process_name,used_memory", *FORMAT]
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
def clocks(device: Device) -> Iterator[dict[str, Any]]:
    """Fills the yielded mapping at its end with what was seen while it was open."""
    seen: dict[str, Any] = {}
    tool, reason = _tool(device)
    if tool is None:
        seen["reason"] = reason
        yield seen
        return
    argv = [tool, f"--query-gpu={','.join(FIELDS)}", *FORMAT, f"--loop-ms={PERIOD_MS}"]
    with tempfile.TemporaryFile() as output:  # a pipe would be full after some minutes
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield seen
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
            output.seek(0)
            seen.update(summary(output.read().decode(errors="replace")))


def summary(text: str) -> dict[str, Any]:
    """Clock in MHz and power in W over the readings of a working GPU; reasons for slowdowns."""
    rows = [row for line in text.splitlines() if (row := _reading(line)) is not None]
    busy = [row for row in rows if row[2] != 0] or rows
    if not busy:
        return {"reason": f"nvidia-smi: {_last_line(text)}"}
    clock, power = [row[0] for row in busy], [row[1] for row in busy if row[1] is not None]
    active = {name for bit, name in SLOWDOWNS.items() if any(row[3] & bit for row in busy)}
    return {
        "readings": len(busy),
        "sm_mhz": {"min": min(clock), "median": statistics.median(clock), "max": max(clock)},
        "power_w": statistics.fmean(power) if power else None,
        "slowdowns": sorted(active),
    }


def _reading(line: str) -> tuple[float, float | None, float | None, int] | None:
    """Clock, power, share in use and event reasons. Some boards tell no power or share."""
    cells = [None if cell.strip() == "[N/A]" else cell.strip() for cell in line.split(",")]
    try:
        clock, power, used, reasons = cells
        return (
            float(clock or ""),
            None if power is None else float(power),
            None if used is None else float(used),
            int(reasons or "", 16),
        )
    except ValueError:
        return None


def _tool(device: Device) -> tuple[str | None, str]:
    """nvidia-smi, or the reason why there is nothing to ask it."""
    if device == "cpu":
        return None, NO_GPU
    return shutil.which("nvidia-smi"), "no nvidia-smi on PATH"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
