"""When the tokens of requests came, in seconds."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.sample import Sample

NS = 1e9


def decode_intervals(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    """(tokens - 1, seconds from first to last arrival) of each request with two arrivals."""
    found: list[tuple[int, float]] = []
    for sample in samples:
        first, last = sample.t_first_ns, sample.t_last_ns
        if first is not None and last is not None and last > first:
            found.append((len(sample.token_ids) - 1, (last - first) / NS))
    return found


def ttfts(samples: Sequence[Sample]) -> list[float]:
    """Seconds from sending to the first token, per request."""
    return [
        (sample.t_first_ns - sample.t_send_ns) / NS
        for sample in samples
        if sample.t_first_ns is not None
    ]
