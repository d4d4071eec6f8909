"""Acceptance by position and its intervals, for result.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.comparing.interval import pooled_ratio, share_interval
from orchestrator.load.sample import Sample
from orchestrator.measuring.metrics import Phase

MIN_REQUESTS = 5
"""Fewer requests show no variation between requests worth an interval."""


def speculation_json(phase: Phase) -> dict[str, Any]:
    """The record of a phase, which has one, with marginal and conditional acceptance.

    Marginal is accepted_i / steps; conditional at i is accepted_i / accepted_(i-1).
    """
    record = phase.record
    assert record is not None
    positions = record.per_position
    told = _by_request(phase.samples, len(positions)) if positions else None
    marginal: list[float] | None = None
    conditional: list[float | None] | None = None
    intervals: list[Any] | None = None
    conditional_intervals: list[Any] | None = None
    if positions is not None and record.steps:
        reached = (record.steps, *positions[:-1])
        marginal = [count / record.steps for count in positions]
        conditional = [n / of if of else None for n, of in zip(positions, reached, strict=True)]
        intervals = [
            share_interval(count, record.steps, [(r[i + 1], r[0]) for r in told] if told else None)
            for i, count in enumerate(positions)
        ]
        conditional_intervals = [
            share_interval(count, of, [(r[i + 1], r[i]) for r in told] if told else None)
            for i, (count, of) in enumerate(zip(positions, reached, strict=True))
        ]
    return {
        "steps": record.steps,
        "drafted": record.drafted,
        "accepted": record.accepted,
        "per_position": list(positions) if positions is not None else [],
        "marginal_acceptance": marginal,
        "marginal_interval": _listed(intervals),
        "conditional_acceptance": conditional,
        "conditional_interval": _listed(conditional_intervals),
        "interval_unit": "requests" if told else "steps",
        "acceptance_length_interval": acceptance_length_interval(phase.samples),
        "source": record.source,
    }


def acceptance_length_interval(samples: Sequence[Sample]) -> list[float] | None:
    """Of the pooled 1 + accepted / steps, over requests; None where requests do not tell."""
    rows = []
    for sample in samples:
        told = sample.server
        if told is None or not told.steps or told.accepted is None:
            return None
        rows.append((float(told.steps + told.accepted), float(told.steps), 1.0, 1.0))
    if len(rows) < MIN_REQUESTS:
        return None
    ratio = pooled_ratio(rows)
    return [ratio.low, ratio.high]


def _by_request(samples: Sequence[Sample], draft_tokens: int) -> list[tuple[int, ...]] | None:
    """Steps, then steps that accepted beyond position 0, 1, ....

    None unless every request tells.
    """
    found = []
    for sample in samples:
        histogram = sample.server.histogram if sample.server is not None else None
        if histogram is None or len(histogram) > draft_tokens + 1:
            return None
        found.append(tuple(sum(histogram[i:]) for i in range(draft_tokens + 1)))
    return found if len(found) >= MIN_REQUESTS else None


def _listed(intervals: list[Any] | None) -> list[list[float] | None] | None:
    if intervals is None:
        return None
    return [list(one) if one is not None else None for one in intervals]
