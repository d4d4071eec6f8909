"""What the client itself cost in a phase, how late it was, and when that was the limit.

A load generator that cannot keep up measures itself. So each phase tells the client's share of a
core, how long arrivals waited to be read, and how long free slots waited for their next request.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from orchestrator.load.recording import Recording
from orchestrator.load.sample import Sample

MIN_WALL_S = 1.0
"""A shorter phase is not judged: its start outweighs it."""
MAX_CPU_SHARE = 0.8
"""Of a core: all that a process with one interpreter lock has. Queues grow long before it is 1."""
MAX_LAG_SHARE = 0.1
"""Of the median decode time of a request. The rate is wrong by less: the kernel stamps arrivals, so
reading late only merges chunks."""
MAX_EMPTY_SHARE = 0.1
"""Of the time of all slots. The concurrency and the output throughput are lower by as much."""
USUAL_MS = 20.0
"""A busy machine makes any process wait this long now and then."""


@dataclass(frozen=True)
class Spread:
    n: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class Floor:
    """Facts of one phase. Everything else is derived from them and the samples."""

    wall_s: float
    cpu_s: float
    """Processor time of the whole process: sending, reading, parsing, progress."""
    loop_cpu_s: float
    """Of that, the event loop's thread."""
    lag_ms: Spread | None
    """From the arrival of bytes to their reading; None where the kernel tells no arrivals."""
    late_send_ms: Spread | None
    """From a slot becoming free to its next request being handed to the socket."""
    empty_share: float
    """Of the time of all slots, what they spent waiting to be used."""


@dataclass
class Meter:
    """Collects from recordings what a Floor tells of them."""

    lags_ns: array[int] = field(default_factory=lambda: array("q"))
    late_ns: array[int] = field(default_factory=lambda: array("q"))

    def add(self, recording: Recording) -> None:
        self.lags_ns.extend(recording.stamps.lags_ns)
        if recording.stamps.sent_ns is not None:
            self.late_ns.append(recording.stamps.sent_ns - recording.free_ns)


@contextmanager
def metered(slots: int, on_floor: Callable[[Floor], None]) -> Iterator[Meter]:
    """Measure what happens inside, in the event loop's thread; tell it when that went well."""
    meter, before = Meter(), _clocks()
    yield meter
    wall, cpu, loop = (now - then for now, then in zip(_clocks(), before, strict=True))
    on_floor(
        Floor(
            wall_s=wall,
            cpu_s=cpu,
            loop_cpu_s=loop,
            lag_ms=_spread(meter.lags_ns),
            late_send_ms=_spread(meter.late_ns),
            empty_share=sum(meter.late_ns) / 1e9 / (wall * slots) if slots else 0.0,
        )
    )


def client_json(floor: Mapping[str, Any] | None, samples: Sequence[Sample]) -> Any:
    """The floor as it stands in counters.json, with what is derived from it; None as None."""
    if floor is None:
        return None
    tokens = sum(len(sample.token_ids) for sample in samples)
    return {
        **floor,
        "cpu_share": floor["cpu_s"] / floor["wall_s"],
        "cpu_us_per_token": 1e6 * floor["cpu_s"] / tokens if tokens else None,
    }


def client_problems(client: Mapping[str, Any] | None, samples: Sequence[Sample]) -> list[str]:
    """Why the client, not the server, may have set the numbers; empty when it did not."""
    if client is None or client["wall_s"] < MIN_WALL_S:
        return []
    found = []
    if client["cpu_share"] > MAX_CPU_SHARE:
        found.append(f"it kept {client['cpu_share']:.0%} of a core busy")
    decode_ms = [(s.chunks[-1][0] - s.chunks[0][0]) / 1e6 for s in samples if s.chunks]
    lag, late = client["lag_ms"], client["late_send_ms"]
    if lag is not None and decode_ms and lag["p99"] > USUAL_MS:
        usual = median(decode_ms)
        if lag["p99"] > MAX_LAG_SHARE * usual:
            found.append(
                f"it read arrivals {lag['p99']:.0f} ms late, where a request decodes {usual:.0f} ms"
            )
    if late is not None and late["p50"] > USUAL_MS and client["empty_share"] > MAX_EMPTY_SHARE:
        found.append(f"its slots were empty {client['empty_share']:.0%} of the time")
    return [f"the client was the limit: {reason}" for reason in found]


def _clocks() -> tuple[float, float, float]:
    return time.monotonic(), time.process_time(), time.thread_time()


def _spread(values_ns: array[int]) -> Spread | None:
    if not values_ns:
        return None
    ordered = sorted(values_ns)
    p50, p99 = (ordered[(len(ordered) - 1) * share // 100] / 1e6 for share in (50, 99))
    return Spread(n=len(ordered), p50=p50, p99=p99, max=ordered[-1] / 1e6)
