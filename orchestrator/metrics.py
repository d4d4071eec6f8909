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
from orchestrator.energy import Power, energy_per_token, mean_power, most_memory
from orchestrator.roofline import UNKNOWN, Roof, ideal_speedup, roofline_share, weight_rate
from orchestrator.sample import Sample

NS = 1e9


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
    speculation: str
    draft_tokens: int | None
    power: Power | str = "no readings of the GPU were kept"
    """Of its GPUs, or why it is not known."""
    roof: Roof = UNKNOWN


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


def decode_intervals(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    """(tokens - 1, seconds from first to last arrival) of each request with two arrivals."""
    found: list[tuple[int, float]] = []
    for sample in samples:
        first, last = sample.t_first_ns, sample.t_last_ns
        if first is not None and last is not None and last > first:
            found.append((len(sample.token_ids) - 1, (last - first) / NS))
    return found


def ttfts(samples: Sequence[Sample]) -> list[float]:
    """Seconds from sending to the first token, per request."""
    return [
        (sample.t_first_ns - sample.t_send_ns) / NS
        for sample in samples
        if sample.t_first_ns is not None
    ]


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


def _acceptance_length(phase: Phase) -> tuple[float, int] | str:
    if phase.speculation == "none":
        return "no speculation"
    if phase.record is None:
        return "the engine reported no speculation counters"
    if phase.record.steps == 0:
        return "nothing was drafted"
    return 1 + phase.record.accepted / phase.record.steps, phase.record.steps


def _acceptance_length_per_request(phase: Phase) -> tuple[float, int] | str:
    if phase.speculation == "none":
        return "no speculation"
    values = [
        1 + told.accepted / told.steps
        for told in (sample.server for sample in phase.samples)
        if told is not None and told.steps and told.accepted is not None
    ]
    if not values:
        return "the engine reports no verification steps per request"
    return statistics.fmean(values), len(values)


def _draft_utilisation(phase: Phase) -> tuple[float, int] | str:
    if phase.speculation == "none":
        return "no speculation"
    if phase.record is None or phase.record.drafted == 0:
        return "nothing was drafted"
    return phase.record.accepted / phase.record.drafted, phase.record.steps


def decode_steps(phase: Phase) -> int | str:
    """Forward passes of the target while decoding: verification steps, or one per token."""
    if phase.speculation == "none":
        return sum(n for n, _ in decode_intervals(phase.samples))
    if phase.record is None or phase.record.steps == 0:
        return "the engine reported no verification steps"
    return phase.record.steps


def step_time(phase: Phase) -> tuple[float, int] | str:
    steps = decode_steps(phase)
    if isinstance(steps, str):
        return steps
    intervals = decode_intervals(phase.samples)
    if not intervals or steps == 0:
        return "no request streamed two tokens or more"
    return 1000 * sum(s for _, s in intervals) / steps, steps


def _draft_time(phase: Phase) -> tuple[float, int] | str:
    if phase.speculation == "none":
        return "no speculation"
    record = phase.record
    if record is None or not record.draft_passes or record.draft_ms is None:
        return "the engine does not tell how long it drafts"
    return record.draft_ms / record.draft_passes, record.draft_passes


def _target_time(phase: Phase) -> tuple[float, int] | str:
    step = step_time(phase)
    if isinstance(step, str) or phase.speculation == "none":
        return step
    draft = _draft_time(phase)
    return draft if isinstance(draft, str) else (step[0] - draft[0], step[1])


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
        _acceptance_length,
    ),
    Metric(
        "acceptance_length_per_request",
        "tokens/step",
        "higher",
        "mean over requests of 1 + accepted / steps",
        _acceptance_length_per_request,
    ),
    Metric(
        "draft_utilisation",
        "1",
        "neither",
        "accepted / drafted; depends on K, so not to be compared across K",
        _draft_utilisation,
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
        _draft_time,
    ),
    Metric(
        "target_time_ms",
        "ms",
        "lower",
        "step_time_ms - draft_time_ms: verifying K + 1 tokens, and the rest of a step",
        _target_time,
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
