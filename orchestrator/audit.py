"""Greedy audit: where the tokens of two arms first differ, prompt by prompt.

Speculative greedy output need not be byte-identical to plain output: verification runs another
batch shape, and near-ties can fall either way. So divergence is reported next to the engine's own
floor (plain against plain again), never hidden and never an error by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.compare import paired
from orchestrator.sample import Sample


@dataclass(frozen=True)
class Divergence:
    prompt: str
    position: int
    """Index of the first output token that differs."""
    a: int | None
    b: int | None
    """The token ids there; None where that output had already ended."""


@dataclass(frozen=True)
class GreedyAudit:
    a: str
    b: str
    concurrency: int
    prompts: int
    identical: int
    divergences: tuple[Divergence, ...]


def first_divergence(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first difference, or None if both are equal."""
    for position, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return position
    return None if len(a) == len(b) else min(len(a), len(b))


def audit_greedy(
    a: str, b: str, concurrency: int, left: Sequence[Sample], right: Sequence[Sample]
) -> GreedyAudit:
    """Compare the outputs of two arms on the prompts both answered."""
    divergences: list[Divergence] = []
    pairs = paired(left, right)
    for one, two in pairs:
        ids_a, ids_b = one.token_ids, two.token_ids
        position = first_divergence(ids_a, ids_b)
        if position is not None:
            divergences.append(
                Divergence(
                    one.prompt_id,
                    position,
                    ids_a[position] if position < len(ids_a) else None,
                    ids_b[position] if position < len(ids_b) else None,
                )
            )
    return GreedyAudit(
        a, b, concurrency, len(pairs), len(pairs) - len(divergences), tuple(divergences)
    )
