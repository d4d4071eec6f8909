"""Samples and phases with known timings, as a run would have left them."""

from __future__ import annotations

from collections.abc import Sequence

from backends.base import RequestSpeculation, SpecRecord
from orchestrator.load.sample import Sample
from orchestrator.measuring.metrics import Phase

FIRST_NS = 10_000_000


def sample(
    prompt: int | str,
    tokens: int = 100,
    seconds: float = 1.0,
    *,
    arm: str = "arm",
    told: RequestSpeculation | None = None,
    error: str | None = None,
) -> Sample:
    """One request whose tokens arrive in two chunks, `seconds` apart."""
    chunks: list[tuple[int, tuple[int, ...]]] = []
    if tokens:
        chunks.append((FIRST_NS, (7,)))
    if tokens > 1:
        chunks.append((FIRST_NS + round(seconds * 1e9), (7,) * (tokens - 1)))
    return Sample(
        request_id=f"{arm}/{prompt}",
        prompt_id=str(prompt),
        arm=arm,
        mode="greedy",
        concurrency=1,
        repeat=1,
        seed=1,
        prompt_tokens=8,
        t_send_ns=0,
        chunks=tuple(chunks),
        t_end_ns=FIRST_NS + round(seconds * 1e9),
        finish="length",
        server=told,
        server_prompt_tokens=8,
        server_completion_tokens=tokens,
        error=error,
    )


def timed(seconds: Sequence[float], arm: str = "arm") -> list[Sample]:
    """100 tokens after the first on each prompt, in the given times."""
    return [sample(number, 101, time, arm=arm) for number, time in enumerate(seconds)]


def plain(samples: Sequence[Sample]) -> Phase:
    return Phase(samples, None, "none", None)


def drafted(
    samples: Sequence[Sample],
    steps: int,
    per_position: tuple[int, ...],
) -> Phase:
    """A phase with a drafter, K = the number of positions."""
    k = len(per_position)
    record = SpecRecord(steps, steps * k, sum(per_position), per_position, "counters")
    return Phase(samples, record, "dflash", k)


def told(steps: int, accepted: int) -> RequestSpeculation:
    return RequestSpeculation(steps=steps, accepted=accepted)
