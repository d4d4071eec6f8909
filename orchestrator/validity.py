"""Gates: what makes the numbers of a phase no speed result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.metrics import Phase
from orchestrator.sample import Sample

MIN_ACCEPTANCE_LENGTH = 1.1
MIN_FIRST_POSITION = 0.1
"""Below either a drafter costs time and gives nothing: it is broken or fed wrongly. Heads that
work accept 0.4 to 0.85 at the first position."""


def problems(
    phase: Phase, samples: Sequence[Sample], workload: Mapping[str, Any]
) -> tuple[str, ...]:
    """Reasons, in words, why this phase must not be used for a comparison; empty when fine."""
    found: list[str] = []
    failed = [sample for sample in samples if sample.error is not None]
    if failed:
        found.append(f"{len(failed)} of {len(samples)} requests failed: {failed[0].error}")
    if len(samples) < workload["count"]:
        found.append(f"only {len(samples)} of {workload['count']} requests were sent")
    empty = sum(not sample.token_ids for sample in phase.samples)
    if empty:
        found.append(f"{empty} replies held no token")
    wanted = workload["output_tokens"]
    if workload["stop"] == "fixed":
        off = sum(len(sample.token_ids) != wanted for sample in phase.samples)
        if off:
            found.append(f"{off} replies do not have the fixed length of {wanted} tokens")
    miscounted = sum(
        sample.server_completion_tokens is not None
        and sample.server_completion_tokens != len(sample.token_ids)
        for sample in phase.samples
    )
    if miscounted:
        found.append(f"{miscounted} replies hold another number of tokens than the server counted")
    found += _drafting(phase)
    return tuple(found)


def _drafting(phase: Phase) -> list[str]:
    if phase.speculation == "none":
        return []
    record = phase.record
    if record is None:
        return ["the engine reported nothing about speculation, so it may not have run"]
    if record.steps == 0 or record.drafted == 0:
        return ["the drafter was on, but nothing was drafted"]
    tau = 1 + record.accepted / record.steps
    if tau < MIN_ACCEPTANCE_LENGTH:
        return [
            f"the drafter is hardly ever accepted (acceptance length {tau:.2f}): "
            "a fault, not a speed"
        ]
    positions = record.per_position
    if positions and positions[0] / record.steps < MIN_FIRST_POSITION:
        share = positions[0] / record.steps
        return [f"only {share:.0%} of first drafts are accepted: a fault, not a speed"]
    return []
