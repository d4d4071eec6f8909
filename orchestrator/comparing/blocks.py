"""What the turns of one arm showed, put together.

With several blocks every arm is started once in each, so that what changes on the machine in the
course of a run meets all arms alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backends.base import SpecRecord
from orchestrator.comparing.certify import CONDITIONS, same
from orchestrator.measuring import energy
from orchestrator.measuring.counters import Count
from orchestrator.measuring.metrics import Phase

AGAIN = "again, for drift: "


@dataclass(frozen=True)
class Measured:
    """One phase of one arm, with the conditions it ran under."""

    arm: str
    mode: str
    concurrency: int
    phase: Phase
    failed: int
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    observed: Mapping[str, Any] | None
    """Of the first block."""
    conditions: Mapping[str, Any]
    blocks: tuple[Phase, ...] = ()
    """The phase of each block, in order."""
    client: Mapping[str, Any] | None = None
    """What the load generator itself cost, in the first block."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Of conditions that a server can tell: reported by it, or only set."""

    @property
    def first(self) -> Phase:
        return self.blocks[0]


def join_status(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Status of an arm over its blocks: the first that is not ok, with the facts of the first."""
    for number, status in enumerate(turns, start=1):
        if status["status"] != "ok":
            where = f"block {number}: " if len(turns) > 1 and number > 1 else ""
            word = {"status": status["status"], "reason": f"{where}{status['reason']}"}
            return {**turns[0], **word}
    return dict(turns[0])


def join(blocks: Sequence[Sequence[Measured]]) -> list[Measured]:
    """The phases of all blocks of an arm, each one's blocks pooled."""
    found: dict[tuple[str, int], list[Measured]] = {}
    for block in blocks:
        for measured in block:
            found.setdefault((measured.mode, measured.concurrency), []).append(measured)
    return [_pooled(turns, len(blocks)) for turns in found.values()]


def with_last(
    status: dict[str, Any],
    phases: Sequence[Measured],
    again: Mapping[str, Any],
    last: Sequence[Measured],
) -> tuple[dict[str, Any], list[Measured]]:
    """The reference arm's status and phases, with what went wrong in its last turn.

    Nothing else would tell that the run knows little or nothing of drift.
    """
    if status["status"] == "ok" and again["status"] not in ("ok", "not run"):
        status = {**status, "status": again["status"], "reason": f"{AGAIN}{again['reason']}"}
    problems = {(late.mode, late.concurrency): late.problems for late in last}
    found = []
    for one in phases:
        doubts = [f"{AGAIN}{text}" for text in problems.get((one.mode, one.concurrency), ())]
        found.append(replace(one, warnings=(*one.warnings, *doubts)))
    return status, found


def _pooled(turns: Sequence[Measured], blocks: int) -> Measured:
    first = turns[0]
    problems = dict.fromkeys(problem for turn in turns for problem in turn.problems)
    if len(turns) < blocks:
        problems[f"only {len(turns)} of {blocks} blocks were measured"] = None
    for name in CONDITIONS:
        known = [turn.conditions[name] for turn in turns if turn.conditions.get(name) is not None]
        if not all(same(name, known[0], value) for value in known):
            problems[f"{name} changed from one block to another"] = None
    phases = tuple(turn.phase for turn in turns)
    return replace(
        first,
        phase=replace(
            first.phase,
            samples=[sample for phase in phases for sample in phase.samples],
            record=_sum([phase.record for phase in phases]),
            contradiction=next((p.contradiction for p in phases if p.contradiction), None),
            power=energy.pooled([phase.power for phase in phases]),
        ),
        failed=sum(turn.failed for turn in turns),
        problems=tuple(problems),
        warnings=tuple(dict.fromkeys(text for turn in turns for text in turn.warnings)),
        blocks=phases,
    )


def _sum(records: Sequence[SpecRecord | None]) -> SpecRecord | None:
    """None where a block has none: its samples are in the pool all the same."""
    known = [record for record in records if record is not None]
    if len(known) < len(records):
        return None
    positions = [record.per_position for record in known]
    pooled = None
    if all(one is not None for one in positions):
        pooled = tuple(sum(counts) for counts in zip(*(p for p in positions if p), strict=True))
    return SpecRecord(
        steps=sum(record.steps for record in known),
        drafted=sum(record.drafted for record in known),
        accepted=sum(record.accepted for record in known),
        per_position=pooled,
        source=known[0].source,
        draft_passes=_total([record.draft_passes for record in known]),
        draft_ms=_total([record.draft_ms for record in known]),
    )


def _total(values: Sequence[Count | None]) -> Count | None:
    told = [value for value in values if value is not None]
    return sum(told) if len(told) == len(values) else None
