"""Greedy audit: where the tokens of two arms first differ, prompt by prompt.

Speculative greedy output need not be byte-identical to plain output: verification runs another
batch shape, and near-ties can fall either way. So divergence is reported next to the engine's own
floor (plain against plain again), never hidden and never an error by itself. The margin says which
it was: rounding turns a near-tie, a fault turns any token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.load.sample import Sample, paired


@dataclass(frozen=True)
class Margin:
    """How much likelier a's token was than b's, in nats, to the engine that was asked."""

    value: float | None
    by: str | None
    """The arm whose server told the probabilities."""
    reason: str | None
    """Why there is no value."""


@dataclass(frozen=True)
class Divergence:
    prompt: str
    position: int
    """Index of the first output token that differs."""
    a: int | None
    b: int | None
    """The token ids there; None where that output had already ended."""
    margin: Margin


@dataclass(frozen=True)
class GreedyAudit:
    a: str
    b: str
    concurrency: int
    prompts: int
    identical: int
    divergences: tuple[Divergence, ...]
    tokens_per_pass: TokensPerPass | None
    """None where one of the arms has no drafter or tells no passes per request."""


@dataclass(frozen=True)
class TokensPerPass:
    """Drafting on the prompts whose outputs are identical: same weights, same text.

    Tokens that came out after the first, per verification pass. Unlike the acceptance length this
    does not depend on how an engine counts drafts that reach beyond the end of a reply.
    """

    prompts: int
    a: float
    b: float


def first_divergence(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first difference, or None if both are equal."""
    for position, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return position
    return None if len(a) == len(b) else min(len(a), len(b))


def audit_greedy(
    a: str,
    b: str,
    concurrency: int,
    left: Sequence[Sample],
    right: Sequence[Sample],
    margin: Callable[[str, Sequence[int], int | None, int | None], Margin],
) -> GreedyAudit:
    """Compare the outputs of two arms on the prompts both answered.

    `margin` is asked for prompt, common prefix, and both tokens after it.
    """
    divergences: list[Divergence] = []
    pairs = paired(left, right)
    for one, two in pairs:
        ids_a, ids_b = one.token_ids, two.token_ids
        position = first_divergence(ids_a, ids_b)
        if position is not None:
            token_a = ids_a[position] if position < len(ids_a) else None
            token_b = ids_b[position] if position < len(ids_b) else None
            near = margin(one.prompt_id, ids_a[:position], token_a, token_b)
            divergences.append(Divergence(one.prompt_id, position, token_a, token_b, near))
    differing = {divergence.prompt for divergence in divergences}
    same = [pair for pair in pairs if pair[0].prompt_id not in differing]
    rates = _tokens_per_pass([one for one, _ in same]), _tokens_per_pass([two for _, two in same])
    return GreedyAudit(
        a,
        b,
        concurrency,
        len(pairs),
        len(same),
        tuple(divergences),
        TokensPerPass(len(same), rates[0], rates[1])
        if rates[0] is not None and rates[1] is not None
        else None,
    )


def _tokens_per_pass(samples: Sequence[Sample]) -> float | None:
    tokens = passes = 0
    for sample in samples:
        if sample.server is None or sample.server.steps is None:
            return None
        tokens += len(sample.token_ids) - 1
        passes += sample.server.steps
    return tokens / passes if passes else None
