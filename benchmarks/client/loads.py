"""What is asked of every client: how many streams, how fast, for how long."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.client.mock import Rung


@dataclass(frozen=True)
class Sizes:
    """How much of everything. Chunks a second are those of all streams together."""

    streams: tuple[int, ...] = (1, 16, 64, 256)
    per_chunk: tuple[int, ...] = (1, 4, 16)
    chunk_rate: float = 6400.0
    stream_chunk_rate: float = 400.0
    """No stream is faster than this."""
    seconds: float = 1.6
    """Of streaming in each cell of the matrix, and in each rung of the ladder half of it."""
    ladder: tuple[float, ...] = (2e3, 4e3, 6e3, 8e3, 11e3, 16e3, 22e3, 32e3, 45e3, 64e3)
    ladder_streams: int = 16
    cost_tokens: int = 512
    cost_rounds: tuple[int, int] = (1, 8)
    """Requests of each stream in the small and in the large run."""
    cost_repeats: int = 2


FULL = Sizes()
QUICK = Sizes(
    streams=(4,),
    per_chunk=(1, 4),
    chunk_rate=800.0,
    seconds=0.2,
    ladder=(1e3, 2e3),
    ladder_streams=4,
    cost_tokens=32,
    cost_rounds=(1, 2),
    cost_repeats=1,
)


def cells(sizes: Sizes, streams: int) -> list[Rung]:
    """One rung for each number of tokens a chunk. Few streams take several rounds."""
    rate = min(sizes.stream_chunk_rate, sizes.chunk_rate / streams)
    rounds = max(1, min(4, 32 // streams))
    chunks = max(8, round(rate * sizes.seconds / rounds))
    return [Rung(streams * rounds, chunks * n, rate * n, n) for n in sizes.per_chunk]


def ladder(sizes: Sizes) -> list[Rung]:
    streams = sizes.ladder_streams
    return [
        Rung(streams, max(8, round(rate / streams * sizes.seconds / 2)), rate / streams)
        for rate in sizes.ladder
    ]
