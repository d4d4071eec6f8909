"""Metrics of steps: how many tokens one yields, and how long it takes."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from orchestrator.load.arrivals import decode_intervals

if TYPE_CHECKING:
    from backends.base import SpecRecord
    from orchestrator.measuring.metrics import Phase


def _record(phase: Phase) -> SpecRecord | str:
    """Of verification steps that had drafts, or why there is none."""
    if phase.speculation == "none":
        return "no speculation"
    if phase.record is None:
        return phase.contradiction or "the engine reported no verification steps"
    if phase.record.steps == 0 or phase.record.drafted == 0:
        return "nothing was drafted"
    return phase.record


def acceptance_length(phase: Phase) -> tuple[float, int] | str:
    record = _record(phase)
    if isinstance(record, str):
        return record
    return 1 + record.accepted / record.steps, record.steps


def acceptance_length_per_request(phase: Phase) -> tuple[float, int] | str:
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


def draft_utilisation(phase: Phase) -> tuple[float, int] | str:
    record = _record(phase)
    if isinstance(record, str):
        return record
    return record.accepted / record.drafted, record.steps


def decode_steps(phase: Phase) -> int | str:
    """Forward passes of the target while decoding: verification steps, or one per token."""
    if phase.speculation == "none":
        return sum(n for n, _ in decode_intervals(phase.samples))
    record = _record(phase)
    return record if isinstance(record, str) else record.steps


def step_time(phase: Phase) -> tuple[float, int] | str:
    steps = decode_steps(phase)
    if isinstance(steps, str):
        return steps
    intervals = decode_intervals(phase.samples)
    if not intervals or steps == 0:
        return "no request streamed two tokens or more"
    return 1000 * sum(s for _, s in intervals) / steps, steps


def draft_time(phase: Phase) -> tuple[float, int] | str:
    if phase.speculation == "none":
        return "no speculation"
    record = phase.record
    if record is None or not record.draft_passes or record.draft_ms is None:
        return "the engine does not tell how long it drafts"
    return record.draft_ms / record.draft_passes, record.draft_passes


def target_time(phase: Phase) -> tuple[float, int] | str:
    step = step_time(phase)
    if isinstance(step, str) or phase.speculation == "none":
        return step
    draft = draft_time(phase)
    if isinstance(draft, str):
        return draft
    if draft[0] >= step[0]:
        return "drafting is told to take longer than the whole step"
    return step[0] - draft[0], step[1]
