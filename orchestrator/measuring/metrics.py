"""The metrics: one table with name, unit, direction, formula and function.

Times are monotonic nanoseconds of the client. Unknown is a Measurement without a value and with a
reason. The table in docs/metrics.md is generated from METRICS.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from backends.base import SpecRecord
from orchestrator.load.arrivals import NS, decode_intervals, ttfts
from orchestrator.load.sample import Sample
from orchestrator.measuring.energy import Power, energy_per_token, mean_power, most_memory
from orchestrator.measuring.roofline import (
    UNKNOWN,
    Roof,
    ideal_speedup,
    roofline_share,
    weight_rate,
)
from orchestrator.measuring.steps import (
    acceptance_length,
    acceptance_length_per_request,
    draft_time,
    draft_utilisation,
    step_time,
    target_time,
)


@dataclass(frozen=True)
class Measurement:
    value: float | None
    unit: str
    n: int
    """How many requests (for acceptance: verification steps) the value rests on."""
    reason: str | None = None


@dataclass(frozen=True)
class Phase:
    """One arm, mode and concurrency: what was measured, before anything is derived."""

    samples: Sequence[Sample]
    """The measured requests that succeeded."""
    record: SpecRecord | None
    """None where the engine does not tell, or contradicts itself."""
    speculation: str
    draft_tokens: int | None
    power: Power | str = "no readings of the GPU were kept"
    """Of its GPUs, or why it is not known."""
    roof: Roof = UNKNOWN
    contradiction: str | None = None
    """Between the engine's numbers about speculation."""


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    formula: str
    function: Callable[[Phase], tuple[float, int] | str]
    """Value and count, or the reason why there is none."""

    def measure(self, phase: Phase) -> Measurement:
        found = self.function(phase)
        if isinstance(found, str):
            return Measurement(None, self.unit, 0, found)
        return Measurement(found[0], self.unit, found[1])


def _decode_rate(phase: Phase) -> tuple[float, int] | str:
    intervals = decode_intervals(phase.samples)
    if not intervals:
        return "no request streamed two tokens or more"
    return sum(n for n, _ in intervals) / sum(s for _, s in intervals), len(intervals)


def _tpot(phase: Phase) -> tuple[float, int] | str:
    intervals = decode_intervals(phase.samples)
    if not intervals:
        return "no request streamed two tokens or more"
    return statistics.median(1000 * s / n for n, s in intervals), len(intervals)


def _ttft(quantile: float) -> Callable[[Phase], tuple[float, int] | str]:
    def function(phase: Phase) -> tuple[float, int] | str:
        values = sorted(1000 * value for value in ttfts(phase.samples))
        if not values:
            return "no request streamed a token"
        if quantile > 0.5 and len(values) < 20:
            return f"{len(values)} requests are too few for a 95th percentile"
        # Linear interpolation between closest ranks, as numpy's default.
        place = quantile * (len(values) - 1)
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (place - low), len(values)

    return function


def _output_rate(phase: Phase) -> tuple[float, int] | str:
    if not phase.samples:
        return "no request succeeded"
    tokens = sum(len(sample.token_ids) for sample in phase.samples)
    wall = 0
    for turn in {sample.repeat for sample in phase.samples}:  # other arms ran in between
        mine = [sample for sample in phase.samples if sample.repeat == turn]
        wall += max(s.t_end_ns for s in mine) - min(s.t_send_ns for s in mine)
    if wall <= 0:
        return "no time passed"
    return tokens / (wall / NS), len(phase.samples)


def _output_tokens(phase: Phase) -> tuple[float, int] | str:
    if not phase.samples:
        return "no request succeeded"
    return float(sum(len(sample.token_ids) for sample in phase.samples)), len(phase.samples)


def _largest_share(phase: Phase) -> tuple[float, int] | str:
    lengths = [len(sample.token_ids) for sample in phase.samples]
    if not sum(lengths):
        return "no request streamed a token"
    return max(lengths) / sum(lengths), len(lengths)


METRICS = (
    Metric(
        "decode_tok_s",
        "tok/s",
        "higher",
        "sum over requests of (tokens - 1) / sum of (t_last - t_first)",
        _decode_rate,
    ),
    Metric("tpot_ms", "ms", "lower", "median of (t_last - t_first) / (tokens - 1)", _tpot),
    Metric("ttft_ms", "ms", "lower", "median of t_first - t_send", _ttft(0.5)),
    Metric("ttft_p95_ms", "ms", "lower", "95th percentile of t_first - t_send", _ttft(0.95)),
    Metric(
        "output_tok_s",
        "tok/s",
        "higher",
        "all output tokens / (last end - first send) of the phase, summed over blocks",
        _output_rate,
    ),
    Metric("output_tokens", "tokens", "neither", "all output tokens", _output_tokens),
    Metric(
        "largest_request_share",
        "1",
        "neither",
        "output tokens of the longest reply / all output tokens; pooled values lean towards it",
        _largest_share,
    ),
    Metric(
        "acceptance_length",
        "tokens/step",
        "higher",
        "1 + accepted / steps, pooled over all steps",
        acceptance_length,
    ),
    Metric(
        "acceptance_length_per_request",
        "tokens/step",
        "higher",
        "mean over requests of 1 + accepted / steps",
        acceptance_length_per_request,
    ),
    Metric(
        "draft_utilisation",
        "1",
        "neither",
        "accepted / drafted; depends on K, so not to be compared across K",
        draft_utilisation,
    ),
    Metric(
        "step_time_ms",
        "ms",
        "lower",
        "sum of (t_last - t_first) / verification steps; one step a token without a drafter",
        step_time,
    ),
    Metric(
        "draft_time_ms",
        "ms",
        "lower",
        "time of drafting / its passes, where the engine's log tells",
        draft_time,
    ),
    Metric(
        "target_time_ms",
        "ms",
        "lower",
        "step_time_ms - draft_time_ms: verifying K + 1 tokens, and the rest of a step",
        target_time,
    ),
    Metric(
        "weight_read_gb_s",
        "GB/s",
        "higher",
        "bytes of weights a step reads, drafter included / step_time_ms; one request at a time",
        weight_rate,
    ),
    Metric(
        "roofline_share",
        "1",
        "higher",
        "weight_read_gb_s / memory bandwidth, measured in the same run by copying",
        roofline_share,
    ),
    Metric(
        "ideal_speedup",
        "x",
        "neither",
        "acceptance_length / (1 + drafter's bytes / target's bytes): were memory the only limit",
        ideal_speedup,
    ),
    Metric(
        "power_w",
        "W",
        "lower",
        "mean of nvidia-smi's power.draw, twice a second from first send to last end; n readings",
        mean_power,
    ),
    Metric(
        "energy_j_per_token",
        "J/token",
        "lower",
        "power_w * (last end - first send) / all output tokens, prompts included; whole GPU",
        energy_per_token,
    ),
    Metric("gpu_memory_mib", "MiB", "neither", "most memory in use on the GPU", most_memory),
)


def measure(phase: Phase, only: Collection[str] | None = None) -> dict[str, Measurement]:
    """Every metric of METRICS for one phase, or those named."""
    return {m.name: m.measure(phase) for m in METRICS if only is None or m.name in only}
