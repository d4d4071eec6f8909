"""The load: a closed loop of streaming requests, each kept as a Sample.

While a stream runs, the event loop does nothing but stamp arriving bytes and store them. Taking
them apart, and whatever `on_sample` does, happens in one other thread once the stream has ended.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import httpx
from msgspec import json

from backends.base import Request
from backends.protocol import Backend
from orchestrator.load.client_floor import Floor, metered
from orchestrator.load.recording import PhaseContext, Recording, to_sample
from orchestrator.load.sample import Sample
from orchestrator.load.transport import EXTENSION, StampingTransport

__all__ = ["PhaseContext", "run_phase", "run_requests"]

CONNECT_TIMEOUT_S = 10.0
HEADERS = {
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "Content-Type": "application/json",
}
SWITCH_INTERVAL_S = 0.0002
"""The longest a parsing thread may keep the event loop from reading."""
GC_THRESHOLD = 500_000
"""Objects that pile up before a garbage collection, which Python begins at 700. Nearly all of them
are open streams and samples; garbage is about 40 objects a request."""

P = ParamSpec("P")
T = TypeVar("T")


async def run_requests(
    base_url: str,
    backend: Backend,
    model: str,
    requests: Sequence[Request],
    *,
    concurrency: int,
    context: PhaseContext,
    on_sample: Callable[[Sample], None],
    should_stop: Callable[[], bool],
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    on_floor: Callable[[Floor], None] = lambda _: None,
) -> list[Sample]:
    """Send `requests` in order, `concurrency` at a time; samples come in order of completion.

    Every request that was sent to its end gives a Sample, with `error` set when it failed or took
    longer than `timeout_s`. `should_stop` is asked before each; when it says yes, no more are sent.
    `on_sample` runs in another thread, one call at a time; what it raises ends the phase. At the
    end `on_floor` is told what the client itself cost.
    """
    pending = iter(requests)
    parsed: list[Future[Sample]] = []
    broken = threading.Event()

    def keep(recording: Recording) -> Sample:
        try:
            meter.add(recording)
            sample = to_sample(recording, backend, context, concurrency)
            recording.stamps.body.clear()  # the HTTP parser and its callbacks hold each other
            on_sample(sample)
        except BaseException:
            broken.set()
            raise
        return sample

    sent_headers = httpx.Headers({**HEADERS, **(headers or {})})

    def post(recording: Recording) -> httpx.Request:
        call = backend.call(recording.request, model)
        return httpx.Request(
            "POST",
            base_url + call.path,
            headers=sent_headers,
            content=json.encode(call.body),
            extensions={"timeout": {"connect": CONNECT_TIMEOUT_S}, EXTENSION: recording.stamps},
        )

    async def slot(transport: httpx.AsyncBaseTransport) -> None:
        free_ns = began_ns
        for request in pending:
            if should_stop() or broken.is_set():
                return
            recording = Recording(request, free_ns)
            await _send(transport, post(recording), recording, timeout_s)
            free_ns = recording.ended_ns
            parsed.append(parser.submit(keep, recording))

    slots = min(concurrency, len(requests))
    with (
        _undisturbed(),
        metered(slots, on_floor) as meter,
        ThreadPoolExecutor(1, "samples") as parser,
    ):
        async with StampingTransport(base_url) as transport:
            began_ns = time.monotonic_ns()
            await asyncio.gather(*(slot(transport) for _ in range(slots)))
        return [await asyncio.wrap_future(sample) for sample in parsed]


def _blocking(run: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    return lambda *args, **kwargs: asyncio.run(run(*args, **kwargs))


run_phase = _blocking(run_requests)
"""`run_requests` for synchronous callers.

On Ctrl-C the streams under way are dropped and KeyboardInterrupt is raised; every request that had
finished was given to `on_sample` by then.
"""


async def _send(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    recording: Recording,
    timeout_s: float,
) -> None:
    """To the transport, since the layers of a httpx.AsyncClient cost more than it."""
    try:
        async with asyncio.timeout(timeout_s):
            response = await transport.handle_async_request(request)
            recording.status = response.status_code
    except TimeoutError:
        recording.error = f"no end after {timeout_s:g} s"
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        recording.error = f"no connection: {error}"
    except httpx.HTTPError as error:
        recording.error = f"the stream broke: {error}"
    recording.ended_ns = time.monotonic_ns()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No long wait for the parsing thread, and little garbage collection."""
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(GC_THRESHOLD)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(before)
