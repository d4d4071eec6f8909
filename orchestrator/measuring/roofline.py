"""How close a step comes to the time in which memory can deliver the weights that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.measuring.steps import acceptance_length, step_time

if TYPE_CHECKING:
    from orchestrator.measuring.metrics import Phase


@dataclass(frozen=True)
class Roof:
    """What bounds an arm's step where memory is the limit; a text says why it is not known."""

    bytes: tuple[int, int] | str
    """Weights read in a step: the target's, and the drafter's (0 without one)."""
    bandwidth: float | str
    """Bytes per second, as measured in the same run."""


UNKNOWN = Roof("the weights of a step were not counted", "memory bandwidth was not measured")


def roof(machine: Mapping[str, Any], status: Mapping[str, Any]) -> Roof:
    """Out of environment.json and an arm's status.json; older ones tell neither."""
    told, counted = machine.get("bandwidth"), status.get("step_bytes")
    bandwidth, size = UNKNOWN.bandwidth, UNKNOWN.bytes
    if told is not None:
        bandwidth = told["bytes_per_s"] if told["bytes_per_s"] is not None else told["reason"]
    if counted is not None:
        size = counted["reason"] if "reason" in counted else (counted["target"], counted["drafter"])
    return Roof(size, bandwidth)


def weight_rate(phase: Phase) -> tuple[float, int] | str:
    """GB of weights read per second of decoding."""
    size = phase.roof.bytes
    if isinstance(size, str):
        return size
    if any(sample.concurrency > 1 for sample in phase.samples):
        return "requests in flight share steps, so a step's time is not known"
    step = step_time(phase)
    return step if isinstance(step, str) else (sum(size) / step[0] / 1e6, step[1])


def roofline_share(phase: Phase) -> tuple[float, int] | str:
    rate, bandwidth = weight_rate(phase), phase.roof.bandwidth
    if isinstance(rate, str):
        return rate
    return bandwidth if isinstance(bandwidth, str) else (1e9 * rate[0] / bandwidth, rate[1])


def ideal_speedup(phase: Phase) -> tuple[float, int] | str:
    """tau / (1 + t_draft / t_target), where memory alone sets both times."""
    length, size = acceptance_length(phase), phase.roof.bytes
    if isinstance(length, str) or isinstance(size, str):
        return length if isinstance(length, str) else str(size)
    target, drafter = size
    return length[0] / (1 + drafter / target), length[1]
