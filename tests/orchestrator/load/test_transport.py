from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import BACKENDS
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.recording import Recording, to_sample
from orchestrator.load.sample import Sample
from orchestrator.load.transport import (
    DELAYED_ACK_NS,
    FEW_STREAMS,
    PAUSE_S,
    SO_TIMESTAMPNS,
    Exchange,
    StampingTransport,
    Stamps,
)
from tests.fakes import request

CONTEXT = PhaseContext("arm", "greedy", 0)
FRAMINGS = ["chunked", "content-length", "until closed"]


def sse(chunks: list[list[int]], newline: bytes, comments: bool) -> bytes:
    """A vLLM stream of these tokens with a final usage chunk."""
    ends = [None] * (len(chunks) - 1) + ["length"]
    events = [
        json.dumps({"choices": [{"index": 0, "token_ids": ids, "finish_reason": end}]})
        for ids, end in zip(chunks, ends, strict=True)
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": sum(map(len, chunks))}
    events += [json.dumps({"choices": [], "usage": usage}), "[DONE]"]
    keep_alive = b": keep-alive" + 2 * newline if comments else b""
    return b"".join(keep_alive + b"data: " + one.encode() + 2 * newline for one in events)


def framed(body: bytes, framing: str, size: int) -> bytes:
    """The response, its body in chunks of `size` where it has any."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if framing == "until closed":
        return head + b"\r\n" + body
    if framing == "content-length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks


@contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with ours, theirs:
            yield ours, theirs


def received(pieces: list[bytes]) -> tuple[Sample, BaseException | None]:
    """What comes of a connection that brings these pieces, each read by itself, and then ends."""
    with tcp_pair() as (ours, theirs), closing(asyncio.new_event_loop()) as loop:
        recording = Recording(request(), free_ns=1)
        exchange = Exchange(ours, recording.stamps, loop.create_future())
        for piece in pieces:
            theirs.sendall(piece)
            exchange.read()
        theirs.close()
        exchange.read()
        recording.status = exchange.parser.get_status_code()
        return to_sample(recording, BACKENDS["vllm"], CONTEXT, 1), exchange.done.exception()


def cut(text: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(text), *(place for place in places if place < len(text))})
    return [text[a:b] for a, b in pairwise(bounds)]


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.booleans(),
    st.sampled_from(FRAMINGS),
    st.integers(1, 400),
    st.lists(st.integers(0, 2000), max_size=12),
)
def test_every_token_once_however_the_stream_was_cut(
    chunks: list[list[int]],
    newline: bytes,
    comments: bool,
    framing: str,
    size: int,
    places: list[int],
) -> None:
    text = framed(sse(chunks, newline, comments), framing, size)
    sample, broken = received(cut(text, places))
    assert (sample.error, broken) == (None, None)
    assert [list(ids) for _, ids in sample.chunks] == chunks
    assert sample.server_completion_tokens == len(sample.token_ids)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_cut_at_every_byte(framing: str) -> None:
    text = framed(sse([[1], [2, 3]], b"\r\n", comments=True), framing, 100)
    every = [text[at : at + 1] for at in range(len(text))]
    for pieces in [every, *(cut(text, [place]) for place in range(len(text)))]:
        sample, broken = received(pieces)
        assert (sample.token_ids, sample.error, broken) == ((1, 2, 3), None, None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP: "),
        (b"", "the server closed the connection too early"),
        (b"HTTP/1.1 200 OK\r\nServer: x\r\n", "the server closed the connection too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the server closed the connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "not HTTP: "),
    ],
)
def test_what_is_no_whole_response(text: bytes, error: str) -> None:
    _, broken = received([text] if text else [])
    assert isinstance(broken, httpx.RemoteProtocolError)
    assert str(broken).startswith(error)


def test_no_tls() -> None:
    with pytest.raises(httpx.UnsupportedProtocol, match="https"):
        StampingTransport("https://127.0.0.1:1")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps what TCP receives")
def test_reading_late_does_not_change_the_arrival() -> None:
    with tcp_pair() as (ours, theirs), closing(asyncio.new_event_loop()) as loop:
        ours.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        stamps = Stamps()
        exchange = Exchange(ours, stamps, loop.create_future())
        theirs.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        exchange.read()
        time.sleep(0.05)  # the kernel begins to stamp a moment after it was asked
        before = time.monotonic_ns()
        theirs.sendall(b"data")
        after = time.monotonic_ns()
        time.sleep(0.1)
        exchange.read()
    [(at, data)] = stamps.body
    assert data == b"data"
    assert before - 10_000 <= at <= after + 1_000_000
    assert stamps.lags_ns[-1] > 90e6


def test_acks_are_delayed_again_after_the_kernel_gave_up_waiting() -> None:
    def at_once() -> bool:
        return bool(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

    with tcp_pair() as (ours, theirs), closing(asyncio.new_event_loop()) as loop:
        exchange = Exchange(ours, Stamps(), loop.create_future())
        theirs.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        exchange.read()
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        theirs.sendall(b"data")
        exchange.read()
        deadline = time.monotonic() + 10
        while not at_once() and time.monotonic() < deadline:
            time.sleep(DELAYED_ACK_NS / 1e9)
        assert at_once()
        theirs.sendall(b"data")
        exchange.read()
        assert not at_once()


def test_arrivals_on_many_streams_gather_for_a_moment_and_on_few_do_not() -> None:
    async def shortest_read(streams: int) -> float:
        """Seconds that reading takes while all streams have something every time."""
        loop, times = asyncio.get_running_loop(), []
        with ExitStack() as stack:
            pairs = [stack.enter_context(tcp_pair()) for _ in range(streams)]
            async with StampingTransport("http://127.0.0.1:1") as transport:
                for ours, theirs in pairs:
                    transport.watch(ours, Exchange(ours, Stamps(), loop.create_future()))
                    theirs.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                for _ in range(10):
                    before = time.monotonic()
                    transport.read()
                    times.append(time.monotonic() - before)
                    for _, theirs in pairs:
                        theirs.sendall(b"data")
        return min(times)

    assert asyncio.run(shortest_read(FEW_STREAMS)) < PAUSE_S
    assert asyncio.run(shortest_read(FEW_STREAMS + 1)) >= PAUSE_S


@contextmanager
def server(answer: Callable[[int], list[bytes]]) -> Iterator[str]:
    """Answers the n-th request with the pieces of `answer(n)`, each written by itself."""
    loop = asyncio.new_event_loop()
    count = iter(range(10**6))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in answer(next(count)):
            writer.write(piece)
            await asyncio.sleep(0)
        await writer.drain()
        writer.close()

    listener = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, backlog=512))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(listener.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()


def test_256_streams_lose_and_repeat_nothing() -> None:
    chunks = [[7, 8], [9]] * 6

    def answer(number: int) -> list[bytes]:
        text = framed(sse(chunks, b"\n", comments=number % 2 == 0), FRAMINGS[number % 3], 77)
        return cut(text, list(range(number % 13, len(text), 13)))

    with server(answer) as url:
        samples = run_phase(
            url,
            BACKENDS["vllm"],
            "muse",
            [request(number, tokens=18) for number in range(300)],
            concurrency=256,
            context=CONTEXT,
            on_sample=lambda _: None,
            should_stop=lambda: False,
            timeout_s=60.0,
        )
    assert len(samples) == 300
    assert {sample.error for sample in samples} == {None}
    assert {sample.token_ids for sample in samples} == {(7, 8, 9) * 6}
    assert {len(sample.chunks) for sample in samples} == {12}
