"""A server of known speed: `python -m benchmarks.client.mock [--port N] [--core N]`. Linux only.

Every write has a deadline, fixed when its request came in: `ttft_s`, then one write every
`per_chunk / rate` seconds, so that no delay adds up. What it really did, it stamps right before
each write and tells in its log, so that a client's error is measured against what happened.

    PUT /mock/scenario   the Scenario as JSON; forgets the log
    GET /mock/log        one record a request, in order of arrival
    GET /mock/book       some text

One thread, epoll, prepared bytes: a token costs one heap operation, one stamp and one send().
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import re
import select
import socket
import time
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from benchmarks.client import formats

SPIN_S = 0.0001
"""A sleep may end this much late; the rest before a deadline is waited for by looking again."""
BATCH = 64
"""Writes between two looks at what came in."""
LENGTH = re.compile(rb'"(?:max_tokens|max_completion_tokens|max_new_tokens|n_predict)"\s*:\s*(\d+)')
IDS = re.compile(rb'"return_token_ids"\s*:\s*true')
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.I)


@dataclass(frozen=True)
class Rung:
    """How some requests in a row are answered."""

    requests: int
    tokens: int
    rate: float
    """Tokens a second of each stream."""
    per_chunk: int = 1
    jitter: float = 0.0
    """Each write is early or late by up to this share of the interval; the schedule stays."""
    stall_every: int = 0
    """Writes between two stalls; 0 for none."""
    stall_s: float = 0.0

    def offsets(self) -> tuple[int, ...]:
        """Nanoseconds from the first write to each, the same for every request."""
        interval = self.per_chunk / self.rate
        made = []
        noise = 1
        for place in range(-(-self.tokens // self.per_chunk)):
            noise = noise * 48271 % 2147483647
            shift = self.jitter * (2 * noise / 2147483647 - 1) if place else 0.0
            stalls = place // self.stall_every if self.stall_every else 0
            made.append(round(1e9 * (interval * (place + shift) + stalls * self.stall_s)))
        return tuple(made)


@dataclass(frozen=True)
class Scenario:
    """Requests that ask for `max_tokens` tokens climb the rungs; others get rung 0, cut to what
    they ask for, and are logged without a rung: what a tool sends before it measures."""

    rungs: tuple[Rung, ...]
    ttft_s: float = 0.05
    max_tokens: int = 0

    @classmethod
    def parse(cls, data: bytes) -> Scenario:
        fields = json.loads(data)
        return cls(**{**fields, "rungs": tuple(Rung(**rung) for rung in fields["rungs"])})

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass
class Stream:
    """One request being answered."""

    rung: int | None
    path: str
    tokens: int
    writes: tuple[bytes, ...]
    offsets: tuple[int, ...]
    came_ns: int
    due_ns: int
    """Of the first write."""
    sent: array[int] = field(default_factory=lambda: array("q"))


@dataclass
class Connection:
    sock: socket.socket
    came: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)


class Mock:
    def __init__(self, host: str, port: int) -> None:
        self.listener = socket.create_server((host, port), backlog=1024)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.epoll = select.epoll()
        self.epoll.register(self.listener, select.EPOLLIN)
        self.connections: dict[int, Connection] = {}
        self.heap: list[tuple[int, int, Stream, Connection]] = []
        self.configure(Scenario((Rung(1, 64, 100.0),)))

    def configure(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.heap.clear()
        self.ladder = [n for n, rung in enumerate(scenario.rungs) for _ in range(rung.requests)]
        self.offsets = [rung.offsets() for rung in scenario.rungs]
        self.log: list[Stream] = []
        self.counted = 0
        formats.writes.cache_clear()
        for rung in scenario.rungs:
            for name, with_ids in product(formats.PATHS.values(), (False, True)):
                formats.writes(name, rung.tokens, rung.per_chunk, with_ids)

    def run(self) -> None:
        """Until the process is ended."""
        now = time.monotonic_ns
        while True:
            wait = None if not self.heap else (self.heap[0][0] - now()) / 1e9 - SPIN_S
            if wait is None or wait > 0:
                # epoll's own time-out counts in milliseconds; select's does not.
                select.select([self.epoll], [], [], wait)
            for handle, events in self.epoll.poll(0):
                self._ready(handle, events)
            self._write_due(now)

    def _write_due(self, now: Callable[[], int]) -> None:
        heap = self.heap
        for _ in range(BATCH):
            if not heap or heap[0][0] > (at := now()):
                return
            _, number, stream, connection = heap[0]
            place = len(stream.sent)
            stream.sent.append(at)
            self._send(connection, stream.writes[place])
            if place + 1 < len(stream.writes):
                due = stream.due_ns + stream.offsets[place + 1]
                heapq.heapreplace(heap, (due, number, stream, connection))
            else:
                heapq.heappop(heap)

    def _send(self, connection: Connection, data: bytes) -> None:
        if connection.unsent:
            connection.unsent += data
            return
        try:
            count = connection.sock.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            return  # the client went away; the rest of its answer goes nowhere
        if count < len(data):
            connection.unsent += data[count:]
            self.epoll.modify(connection.sock, select.EPOLLIN | select.EPOLLOUT)

    def _ready(self, handle: int, events: int) -> None:
        if handle == self.listener.fileno():
            self._accept()
            return
        connection = self.connections[handle]
        if events & select.EPOLLOUT and connection.unsent:
            data = bytes(connection.unsent)
            connection.unsent.clear()
            self.epoll.modify(handle, select.EPOLLIN)
            self._send(connection, data)
        if events & ~select.EPOLLOUT:
            try:
                data = connection.sock.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.epoll.unregister(handle)
                connection.sock.close()
                del self.connections[handle]
                return
            connection.came += data
            while self._request(connection):
                pass

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections[sock.fileno()] = Connection(sock)
            self.epoll.register(sock, select.EPOLLIN)

    def _request(self, connection: Connection) -> bool:
        """Answer the first request in what came, if it is whole."""
        head, gap, rest = bytes(connection.came).partition(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not gap or len(rest) < size:
            return False
        del connection.came[: len(head) + len(gap) + size]
        body = rest[:size]
        method, path = head.split(b"\r\n", 1)[0].decode().split()[:2]
        if method == "POST" and path in formats.PATHS:
            self._stream(connection, path, body)
        elif path == "/mock/scenario":
            self.configure(Scenario.parse(body))
            self._answer(connection, {})
        elif path == "/mock/log":
            self._answer(connection, [_record(stream) for stream in self.log])
        elif path == "/mock/book":  # llama-benchy cuts its prompts from one
            self._answer(connection, formats.WORD * 1000)
        elif path == "/v1/models":
            model = {"id": "mock", "object": "model", "created": 1, "owned_by": "mock"}
            self._answer(connection, {"object": "list", "data": [model | {"max_model_len": 8192}]})
        elif path in ("/health", "/metrics"):
            self._answer(connection, None)
        else:
            self._answer(connection, {"error": {"message": f"no {path}"}}, "404 Not Found")
        return True

    def _stream(self, connection: Connection, path: str, body: bytes) -> None:
        came = time.monotonic_ns()
        asked = int(found[1]) if (found := LENGTH.search(body)) else self.scenario.rungs[0].tokens
        place: int | None = None
        if asked == self.scenario.max_tokens:
            place = self.ladder[min(self.counted, len(self.ladder) - 1)]
            self.counted += 1
        rung = self.scenario.rungs[place or 0]
        tokens = rung.tokens if place is not None else max(1, min(asked, rung.tokens))
        name = formats.PATHS[path]
        with_ids = IDS.search(body) is not None
        writes = formats.writes(name, tokens, rung.per_chunk, with_ids)
        due = came + round(1e9 * self.scenario.ttft_s)
        stream = Stream(place, path, tokens, writes, self.offsets[place or 0], came, due)
        self.log.append(stream)
        self._send(connection, formats.HEAD)
        heapq.heappush(self.heap, (due, len(self.log), stream, connection))

    def _answer(self, connection: Connection, value: Any, status: str = "200 OK") -> None:
        data = b"" if value is None else json.dumps(value).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        self._send(connection, f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)


def _record(stream: Stream) -> dict[str, Any]:
    return {
        "rung": stream.rung,
        "path": stream.path,
        "tokens": stream.tokens,
        "came_ns": stream.came_ns,
        "due_ns": stream.due_ns,
        "sent_ns": stream.sent.tolist(),
        "offsets_ns": stream.offsets[: len(stream.sent)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--core", type=int)
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    mock = Mock(options.host, options.port)
    print(mock.port, flush=True)
    mock.run()


if __name__ == "__main__":
    main()
