"""What a rung was, by the mock's own stamps, and what a client told of it, in the same terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

Formula = Literal["tokens", "chunks"]
"""Where a client's TPOT starts to count: after the first token, as most do, or after the first
chunk with all its tokens. The truth is computed by the formula of the client it is for."""


@dataclass(frozen=True)
class Record:
    """One request, in seconds of one clock."""

    start: float
    first: float
    last: float
    tokens: int
    first_tokens: int = 1


@dataclass(frozen=True)
class Told:
    """Of one rung: means over its requests, and its output rate as a whole."""

    requests: int
    tokens: int
    ttft_ms: float
    tpot_ms: float
    rate: float
    """Tokens a second."""


def told(records: Sequence[Record], formula: Formula = "tokens", batch: int = 0) -> Told:
    """By tokens, the rate is that of the whole rung from its first start; by chunks, it is the
    mean over batches of `batch` requests, from the first chunk of each batch and without it."""
    chunks = formula == "chunks"
    ordered = sorted(records, key=lambda record: record.start)
    size = batch if chunks else len(records)
    batches = [ordered[at : at + size] for at in range(0, len(ordered), size)]
    return Told(
        requests=len(records),
        tokens=sum(r.tokens for r in records),
        ttft_ms=1e3 * fmean(r.first - r.start for r in records),
        tpot_ms=1e3
        * fmean(
            (r.last - r.first) / (r.tokens - (r.first_tokens if chunks else 1)) for r in records
        ),
        rate=fmean(
            sum(r.tokens - (r.first_tokens if chunks else 0) for r in some)
            / (max(r.last for r in some) - min(r.first if chunks else r.start for r in some))
            for some in batches
        ),
    )


def by_rung(records: Sequence[Record], sizes: Sequence[int]) -> list[list[Record]] | str:
    """The records in order of their start, cut into rungs of `sizes` requests."""
    if len(records) != sum(sizes):
        return f"{len(records)} of {sum(sizes)} requests in its results"
    ordered = iter(sorted(records, key=lambda record: record.start))
    return [[next(ordered) for _ in range(size)] for size in sizes]


def of_mock(log: Sequence[Mapping[str, Any]], per_chunk: Sequence[int]) -> list[list[Record]]:
    """The mock's own stamps, by rung; what a tool sent besides is left out."""
    rungs: list[list[Record]] = [[] for _ in per_chunk]
    for line in log:
        rung, sent = line["rung"], line["sent_ns"]
        if rung is not None and sent:
            rungs[rung].append(
                Record(
                    start=line["came_ns"] / 1e9,
                    first=sent[0] / 1e9,
                    last=sent[-1] / 1e9,
                    tokens=line["tokens"],
                    first_tokens=min(per_chunk[rung], line["tokens"]),
                )
            )
    return rungs


def lateness_ms(log: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """How much later than its deadline the mock wrote: (99th percentile, largest)."""
    late = sorted(
        sent - line["due_ns"] - offset
        for line in log
        for sent, offset in zip(line["sent_ns"], line["offsets_ns"], strict=True)
    )
    return late[len(late) * 99 // 100] / 1e6, late[-1] / 1e6
