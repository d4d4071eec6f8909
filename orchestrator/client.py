"""The load: a closed loop of streaming requests, each kept as a Sample.

While a stream runs, the event loop does nothing but stamp arriving bytes and store them. Taking
them apart, and whatever `on_sample` does, happens in one other thread once the stream has ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from backends.base import Backend, Call, Chunk, Request, RequestSpeculation
from orchestrator.sample import Sample
from orchestrator.stream import events

CONNECT_TIMEOUT_S = 10.0
ERROR_BODY_BYTES = 16384
ERROR_CHARS = 400
SWITCH_INTERVAL_S = 0.0002
"""The longest a parsing thread may keep the event loop from stamping."""


@dataclass(frozen=True)
class PhaseContext:
    """Which part of the run the requests belong to."""

    arm: str
    mode: str
    repeat: int


@dataclass
class _Stream:
    """What the hot path fills in."""

    request: Request
    t_send_ns: int = 0
    t_end_ns: int = 0
    raw: list[tuple[int, bytes]] = field(default_factory=list)
    error: str | None = None


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
) -> list[Sample]:
    """Send `requests` in order, `concurrency` at a time; samples come in order of completion.

    Every request that was sent to its end gives a Sample, with `error` set when it failed or took
    longer than `timeout_s`. `should_stop` is asked before each; when it says yes, no more are sent.
    `on_sample` runs in another thread, one call at a time; what it raises ends the phase.
    """
    pending = iter(requests)
    parsed: list[Future[Sample]] = []
    broken = threading.Event()

    def keep(stream: _Stream) -> Sample:
        try:
            sample = _sample(backend, stream, context, concurrency)
            on_sample(sample)
        except BaseException:
            broken.set()
            raise
        return sample

    async def worker(client: httpx.AsyncClient) -> None:
        for request in pending:
            if should_stop() or broken.is_set():
                return
            stream = await _send(client, backend.call(request, model), request, timeout_s)
            parsed.append(parser.submit(keep, stream))

    with _switch_interval(SWITCH_INTERVAL_S), ThreadPoolExecutor(1, "samples") as parser:
        async with _client(base_url, concurrency, headers) as client:
            await asyncio.gather(*(worker(client) for _ in range(min(concurrency, len(requests)))))
        return [await asyncio.wrap_future(sample) for sample in parsed]


def run_phase(
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
) -> list[Sample]:
    """`run_requests` for synchronous callers.

    On Ctrl-C the streams under way are dropped and KeyboardInterrupt is raised; every request that
    had finished was given to `on_sample` by then.
    """
    return asyncio.run(
        run_requests(
            base_url,
            backend,
            model,
            requests,
            concurrency=concurrency,
            context=context,
            on_sample=on_sample,
            should_stop=should_stop,
            timeout_s=timeout_s,
            headers=headers,
        )
    )


async def _send(
    client: httpx.AsyncClient, call: Call, request: Request, timeout_s: float
) -> _Stream:
    stream = _Stream(request)
    built = client.build_request("POST", call.path, json=call.body)
    keep, now = stream.raw.append, time.monotonic_ns
    stream.t_send_ns = now()
    try:
        async with asyncio.timeout(timeout_s):
            response = await client.send(built, stream=True)
            try:
                if response.status_code != httpx.codes.OK:
                    stream.error = await _refusal(response)
                else:
                    async for part in response.aiter_raw():
                        keep((now(), part))
            finally:
                await response.aclose()
    except TimeoutError:
        stream.error = f"no end after {timeout_s:g} s"
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        stream.error = f"no connection: {error or type(error).__name__}"
    except httpx.HTTPError as error:
        stream.error = f"the stream broke: {error or type(error).__name__}"
    stream.t_end_ns = now()
    return stream


async def _refusal(response: httpx.Response) -> str:
    """`HTTP 400: what the server says`."""
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > ERROR_BODY_BYTES:
            break
    text = body.decode(errors="replace")
    try:
        answer = json.loads(text)
        error = answer.get("error", answer)
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, AttributeError, KeyError):
        pass
    return f"HTTP {response.status_code}: {text or 'no text'}"


def _sample(backend: Backend, stream: _Stream, context: PhaseContext, concurrency: int) -> Sample:
    """Take a stream apart. The first failure is kept; the chunks before it too."""
    chunks: list[tuple[int, tuple[int, ...]]] = []
    finish: str | None = None
    server: RequestSpeculation | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    problem: str | None = None
    count = 0
    for at, data in events(stream.raw):
        chunk = _chunk(backend, data)
        if isinstance(chunk, str) or chunk.error is not None:
            problem = chunk if isinstance(chunk, str) else chunk.error
            break
        ids = chunk.token_ids[_repeated(chunk, count) :]
        if ids:
            chunks.append((at, ids))
            count += len(ids)
        finish = chunk.finish if chunk.finish is not None else finish
        server = chunk.speculation if chunk.speculation is not None else server
        if chunk.prompt_tokens is not None:
            prompt_tokens = chunk.prompt_tokens
        if chunk.completion_tokens is not None:
            completion_tokens = chunk.completion_tokens
    if problem is None:
        problem = stream.error
    if problem is None and finish is None:
        problem = f"the stream ended after {count} tokens without a finish reason"
    request = stream.request
    return Sample(
        request_id=f"{context.arm}/{context.mode}/c{concurrency}/r{context.repeat}/{request.id}",
        prompt_id=request.id,
        arm=context.arm,
        mode=context.mode,
        concurrency=concurrency,
        repeat=context.repeat,
        seed=request.seed,
        prompt_tokens=len(request.prompt_ids),
        t_send_ns=stream.t_send_ns,
        chunks=tuple(chunks),
        t_end_ns=stream.t_end_ns,
        finish=finish,
        server=server,
        server_prompt_tokens=prompt_tokens,
        server_completion_tokens=completion_tokens,
        error=_one_line(problem) if problem is not None else None,
    )


def _chunk(backend: Backend, data: bytes) -> Chunk | str:
    """The event's facts, or what is wrong with it."""
    try:
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError("not an object")
        return backend.chunk(event)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        return f"event not understood ({error}): {data[:120].decode(errors='replace')}"


def _repeated(chunk: Chunk, count: int) -> int:
    """How many of the chunk's ids were streamed before.

    SGLang sends either what is new or everything so far. Its running count tells which: only in the
    second case is it the length of this very event's ids.
    """
    cumulative = chunk.completion_tokens == len(chunk.token_ids)
    return count if cumulative else 0


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ERROR_CHARS else f"{line[: ERROR_CHARS - 1]}…"


def _client(
    base_url: str, concurrency: int, headers: Mapping[str, str] | None
) -> httpx.AsyncClient:
    # `verify` costs the loading of a certificate store, which plain HTTP has no use for.
    verify = base_url.startswith("https:")
    return httpx.AsyncClient(
        base_url=base_url,
        headers={"Accept": "text/event-stream", "Accept-Encoding": "identity", **(headers or {})},
        transport=httpx.AsyncHTTPTransport(
            verify=verify,
            http2=False,
            trust_env=False,
            # A connection per request: llama-server closes some kept ones just as they are reused.
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=0),
        ),
        # One deadline per request, set where it is sent: httpx would start a timer per read.
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        trust_env=False,
        follow_redirects=False,
    )


@contextmanager
def _switch_interval(seconds: float) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
