"""Samples to counts of next tokens, one table for each prompt and prefix seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchestrator.load.sample import Sample


@dataclass(frozen=True)
class Context:
    """What was asked, what had come so far, and what came next."""

    prompt: str
    prefix: tuple[int, ...]
    counts: tuple[tuple[int, int], ...]
    """(token, times) by token id."""

    @property
    def total(self) -> int:
        return sum(times for _, times in self.counts)


def contexts(samples: Sequence[Sample], end: Collection[int]) -> tuple[Context, ...]:
    """Every context of the samples, the first token's first. End tokens count as one token.

    Engines differ in whether the end token is part of the answer, so a reply that stopped has one
    in any case.
    """
    one_end = min(end) if end else None
    found: dict[tuple[str, tuple[int, ...]], Counter[int]] = defaultdict(Counter)
    for sample in samples:
        ids = list(sample.token_ids)
        stopped = next((at for at, token in enumerate(ids) if token in end), None)
        if one_end is not None and (stopped is not None or sample.finish == "stop"):
            ids = [*(ids if stopped is None else ids[:stopped]), one_end]
        for position, token in enumerate(ids):
            found[sample.prompt_id, tuple(ids[:position])][token] += 1
    ordered = sorted(found.items(), key=lambda item: (len(item[0][1]), item[0]))
    return tuple(
        Context(prompt, prefix, tuple(sorted(counts.items())))
        for (prompt, prefix), counts in ordered
    )
