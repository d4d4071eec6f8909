"""Speculation counters: scraped before and after a phase, differenced, and made one record.

Meanings as vLLM's spec-decode metrics define them: a step is one verification pass that had drafts,
`per_position[i]` counts the steps that accepted their draft at position i (and so all before it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any, TypeVar

from backends.base import CounterMap, RequestSpeculation, SpecRecord
from backends.errors import EngineError

Count = TypeVar("Count", int, float)
AGREE_WITHIN = 0.01
"""Equal on every engine tried; an acceptance length off by less decides nothing."""


@dataclass(frozen=True)
class Counters:
    """Cumulative counts at one moment, or their difference over a phase; None is `not told`."""

    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    per_position: tuple[int, ...] | None = None
    draft_passes: int | None = None
    draft_ms: float | None = None


def scrape(text: str, counter_map: CounterMap, log: str = "") -> Counters:
    """Read a /metrics page, summed over every label but the position, and the end of the log.

    Names are matched on samples, because the parser strips `_total` from families only.
    Raises EngineError where the page cannot be read.
    """
    from prometheus_client.parser import text_string_to_metric_families

    names = {counter_map.steps, counter_map.drafted, counter_map.accepted} - {None}
    totals: dict[str, int] = {}
    positions: dict[int, int] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in names:
                    totals[sample.name] = totals.get(sample.name, 0) + _count(sample.value)
                elif sample.name == counter_map.per_position:
                    place = int(sample.labels[counter_map.position_label])
                    positions[place] = positions.get(place, 0) + _count(sample.value)
    except (ValueError, KeyError) as error:
        raise EngineError(f"the metrics page cannot be read ({error})", where="/metrics") from None
    return Counters(
        steps=totals.get(counter_map.steps) if counter_map.steps else None,
        drafted=totals.get(counter_map.drafted) if counter_map.drafted else None,
        accepted=totals.get(counter_map.accepted) if counter_map.accepted else None,
        per_position=tuple(positions.get(i, 0) for i in range(max(positions) + 1))
        if positions
        else None,
        **_drafting(log, counter_map.drafting_log),
    )


def _drafting(log: str, pattern: str | None) -> dict[str, Any]:
    """Of the last line that tells; before the first draft it is nothing yet."""
    if pattern is None:
        return {}
    told = re.findall(pattern, log)
    passes, ms = told[-1] if told else (0, 0.0)
    return {"draft_passes": int(passes), "draft_ms": float(ms)}


def delta(before: Counters, after: Counters) -> Counters:
    """What was counted in between.

    A series that first appears afterwards counts from 0. One that shrinks or vanishes means that
    the server was restarted: EngineError, because nothing can be said of the phase.
    """
    return Counters(
        steps=_grown("steps", before.steps, after.steps),
        drafted=_grown("drafted", before.drafted, after.drafted),
        accepted=_grown("accepted", before.accepted, after.accepted),
        per_position=_positions_grown(before.per_position, after.per_position),
        draft_passes=_grown("drafting passes", before.draft_passes, after.draft_passes),
        draft_ms=_grown("drafting time", before.draft_ms, after.draft_ms),
    )


def spec_record(
    phase: Counters,
    per_request: Sequence[RequestSpeculation | None],
    draft_tokens: int | None,
) -> SpecRecord | None:
    """The record of one phase, None where neither counters nor requests tell enough.

    `phase` is a `delta`; `draft_tokens` is K, None for an arm without a drafter. Counters are
    preferred; without them the requests that tell are summed. Raises EngineError when the numbers
    contradict each other.
    """
    record = _from_counters(phase)
    if record is None:
        record = _from_requests([told for told in per_request if told is not None])
    if record is None or (draft_tokens is None and record.steps == 0):
        return None
    if phase.draft_passes:
        record = replace(record, draft_passes=phase.draft_passes, draft_ms=phase.draft_ms)
    _check(record, draft_tokens)
    if draft_tokens is None or record.per_position is None:
        return record
    return replace(record, per_position=_fitted(record.per_position, draft_tokens))


def agree(record: SpecRecord, per_request: Sequence[RequestSpeculation | None]) -> None:
    """Raise EngineError where the counters cover other requests than those that are timed.

    Another client's, failed ones, or those of an earlier phase. Unknown unless every request tells.
    """
    told = _total([_accepted(one) if one is not None else None for one in per_request])
    if told is not None and abs(told - record.accepted) > AGREE_WITHIN * record.accepted:
        raise EngineError(
            f"the server counted {record.accepted} accepted drafts, the answers that came {told}",
            fix="Nothing else may use the server.",
        )


def _from_counters(phase: Counters) -> SpecRecord | None:
    if phase.steps is None or phase.drafted is None or phase.accepted is None:
        return None
    return SpecRecord(phase.steps, phase.drafted, phase.accepted, phase.per_position, "counters")


def _from_requests(told: Sequence[RequestSpeculation]) -> SpecRecord | None:
    histograms = [one.histogram for one in told if one.histogram is not None]
    steps = _total([_steps(one) for one in told])
    drafted = _total([one.drafted for one in told])
    accepted = _total([_accepted(one) for one in told])
    if steps is None or drafted is None or accepted is None:
        return None
    per_position = _marginals(histograms) if len(histograms) == len(told) else None
    return SpecRecord(steps, drafted, accepted, per_position, "requests")


def _steps(told: RequestSpeculation) -> int | None:
    if told.histogram is None:
        return told.steps
    return _agreed("steps", told.steps, sum(told.histogram))


def _accepted(told: RequestSpeculation) -> int | None:
    if told.histogram is None:
        return told.accepted
    weighted = sum(length * count for length, count in enumerate(told.histogram))
    return _agreed("accepted drafts", told.accepted, weighted)


def _agreed(what: str, told: int | None, counted: int) -> int:
    if told is not None and told != counted:
        raise _contradiction(f"a request reports {told} {what}, its own histogram {counted}")
    return counted


def _total(values: Sequence[int | None]) -> int | None:
    """Their sum; None when there is none or one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _marginals(histograms: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Steps that accepted more than i drafts, for i = 0..K-1."""
    longest = max(map(len, histograms))
    return tuple(sum(sum(one[i + 1 :]) for one in histograms) for i in range(longest - 1))


def _check(record: SpecRecord, draft_tokens: int | None) -> None:
    """The identities that hold for any engine whatever it drafts."""
    if record.accepted > record.drafted:
        raise _contradiction(f"{record.accepted} drafts accepted, only {record.drafted} made")
    if draft_tokens is not None and record.drafted > record.steps * draft_tokens:
        raise _contradiction(
            f"{record.drafted} drafts in {record.steps} steps, more than {draft_tokens} a step"
        )
    if record.per_position is None:
        return
    if sum(record.per_position) != record.accepted:
        raise _contradiction(
            f"{record.accepted} drafts accepted, {sum(record.per_position)} over all positions"
        )
    if record.per_position and record.per_position[0] > record.steps:
        raise _contradiction(
            f"{record.per_position[0]} accepted at position 0 in {record.steps} steps"
        )
    for position, (here, following) in enumerate(pairwise(record.per_position)):
        if following > here:
            raise _contradiction(
                f"{following} accepted at position {position + 1}, only {here} at {position}"
            )


def _fitted(per_position: tuple[int, ...], draft_tokens: int) -> tuple[int, ...]:
    """Exactly K positions: engines leave out the last ones or list some that cannot be reached."""
    for position, count in enumerate(per_position[draft_tokens:], start=draft_tokens):
        if count:
            raise _contradiction(
                f"{count} accepted at position {position}, of {draft_tokens} drafts"
            )
    return per_position[:draft_tokens] + (0,) * (draft_tokens - len(per_position))


def _contradiction(what: str) -> EngineError:
    return EngineError(
        f"the engine's speculation numbers contradict each other: {what}.",
        fix="Its acceptance cannot be trusted.",
    )


def _grown(name: str, before: Count | None, after: Count | None) -> Count | None:
    if before is None:
        return after
    if after is None or after < before:
        raise EngineError(
            f"the {name} counter went from {before} to {after}: the server was restarted",
            fix="Run this arm again.",
        )
    return after - before


def _positions_grown(
    before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    if before is None:
        return after
    grown = (
        _grown(f"position {place}", first, last)
        for place, (first, last) in enumerate(zip_longest(before, after or (), fillvalue=0))
    )
    return tuple(count for count in grown if count is not None)


def _count(value: float) -> int:
    if value < 0 or not float(value).is_integer():
        raise ValueError(f"{value} is no count")
    return int(value)
