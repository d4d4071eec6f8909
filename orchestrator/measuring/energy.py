"""Power and energy of a phase, out of the readings that were taken while its requests ran."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.load.arrivals import NS
from orchestrator.load.sample import Sample
from orchestrator.measuring import gpu

if TYPE_CHECKING:
    from orchestrator.measuring.metrics import Phase

MIN_READINGS = 4
"""Of each GPU. Power is the driver's mean of a second, so fewer show what was before the phase."""


@dataclass(frozen=True)
class Power:
    """Of all GPUs of an arm together, over the whole phase, prompts included."""

    joules: float
    seconds: float
    readings: int
    memory_mib: float | None
    """The most that was in use, by whomever."""


def power(seen: Mapping[str, Any], log: Path, samples: Sequence[Sample]) -> Power | str:
    """The power of a phase, or why it is not known.

    `seen` is what `gpu.clocks` left of the phase, `log` where it kept the readings of all phases.
    """
    if "monotonic_to_unix_ns" not in seen or not log.exists():
        return str(seen.get("reason", "no readings of the GPU were kept"))
    if not samples:
        return "no request succeeded"
    begin = min(sample.t_send_ns for sample in samples) + seen["monotonic_to_unix_ns"]
    end = max(sample.t_end_ns for sample in samples) + seen["monotonic_to_unix_ns"]
    text = log.read_text(encoding="utf-8", errors="replace")
    inside = [one for one in gpu.readings(text) if begin <= one.unix_ns <= end]
    watts: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    for one in inside:
        if one.power_w is not None:
            watts.setdefault(one.card, []).append(one.power_w)
        if one.memory_mib is not None:
            memory.setdefault(one.card, []).append(one.memory_mib)
    if inside and not watts:
        return "the GPU does not tell its power"
    fewest = min((len(found) for found in watts.values()), default=0)
    if fewest < MIN_READINGS:
        return f"{fewest} readings in {(end - begin) / NS:.1f} s are too few"
    seconds = (end - begin) / NS
    return Power(
        joules=seconds * sum(statistics.fmean(found) for found in watts.values()),
        seconds=seconds,
        readings=sum(len(found) for found in watts.values()),
        memory_mib=sum(max(found) for found in memory.values()) if memory else None,
    )


def pooled(turns: Sequence[Power | str]) -> Power | str:
    """Of all blocks of an arm; the first reason where one has none."""
    known = [turn for turn in turns if isinstance(turn, Power)]
    if len(known) < len(turns):
        return next(turn for turn in turns if isinstance(turn, str))
    memory = [turn.memory_mib for turn in known if turn.memory_mib is not None]
    return Power(
        joules=sum(turn.joules for turn in known),
        seconds=sum(turn.seconds for turn in known),
        readings=sum(turn.readings for turn in known),
        memory_mib=max(memory) if memory else None,
    )


def mean_power(phase: Phase) -> tuple[float, int] | str:
    """W."""
    found = phase.power
    return found if isinstance(found, str) else (found.joules / found.seconds, found.readings)


def energy_per_token(phase: Phase) -> tuple[float, int] | str:
    """J for an output token."""
    found = phase.power
    if isinstance(found, str):
        return found
    tokens = sum(len(sample.token_ids) for sample in phase.samples)
    return (found.joules / tokens, found.readings) if tokens else "no request streamed a token"


def most_memory(phase: Phase) -> tuple[float, int] | str:
    """MiB."""
    found = phase.power
    if isinstance(found, str):
        return found
    if found.memory_mib is None:
        return "the GPU does not tell its memory"
    return found.memory_mib, found.readings
