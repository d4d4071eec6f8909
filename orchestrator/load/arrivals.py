"""When the tokens of requests came, in seconds."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.load.sample import Sample

NS = 1e9


def decode_interval(sample: Sample) -> tuple[int, float] | None:
    """(tokens - 1, seconds from first to last arrival); None without two arrivals."""
    first, last = sample.t_first_ns, sample.t_last_ns
    if first is None or last is None or last <= first:
        return None
    return len(sample.token_ids) - 1, (last - first) / NS


def decode_intervals(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    """Of each request with two arrivals."""
    return [found for sample in samples if (found := decode_interval(sample)) is not None]


def ttfts(samples: Sequence[Sample]) -> list[float]:
    """Seconds from sending to the first token, per request."""
    return [
        (sample.t_first_ns - sample.t_send_ns) / NS
        for sample in samples
        if sample.t_first_ns is not None
    ]
