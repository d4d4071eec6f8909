"""httpx's transport for streams that are measured.

httpx's own hands every piece of a body up through a task and six layers, which costs more than all
the rest of the client. Here one callback reads a socket and stores what came, and httpx gets its
response when that has ended. What was measured: docs/dependencies.md.

The kernel stamps what arrives, so reading late does no harm, and need not happen for every token.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import time
from array import array
from dataclasses import dataclass, field

import httptools
import httpx

EXTENSION = "stamps"
"""Of a httpx.Request: the Stamps to fill in."""
PAUSE_S = 0.001
"""How long arrivals on many streams gather before they are read. A stream's chunks that come closer
than this get the stamp of the last of them."""
FEW_STREAMS = 8
BUFFER = memoryview(bytearray(65536))
"""Of all streams, since nothing read stays in it."""
DELAYED_ACK_NS = 40_000_000
"""After this long the kernel acknowledges what it was told to delay, and delays no more."""
LENGTH_HEADERS = {b"content-length", b"transfer-encoding"}
"""Without either, a response ends where its connection does."""
SO_TIMESTAMPNS = 35
"""Of Linux: asks for a control message (struct timespec, of the realtime clock) with each read."""
TIMESPEC = struct.Struct("@qq")
MAX_LAG_NS = 10**10
"""A stamp further back means that the realtime clock was set."""


@dataclass
class Stamps:
    """What is noted of one request while it runs. Monotonic ns."""

    sent_ns: int | None = None
    """When the request was handed to the socket; None when there was no connection."""
    body: list[tuple[int, bytes]] = field(default_factory=list)
    """(arrival, bytes) of each piece of the response's body."""
    lags_ns: array[int] = field(default_factory=lambda: array("q"))
    """From arrival to reading, of every read whose arrival the kernel told."""


class StampingTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 without TLS, a connection per request: llama-server closes some kept ones on reuse.

    Raises httpx's ConnectError, ConnectTimeout, ReadError and RemoteProtocolError. What had arrived
    by then is in the request's Stamps. The event loop watches one epoll instead of all sockets,
    which spares its own work for each of them.
    """

    def __init__(self, base_url: str) -> None:
        url = httpx.URL(base_url)
        if url.scheme != "http":
            raise httpx.UnsupportedProtocol(f"{url.scheme}: is not http:")
        port = url.port if url.port is not None else 80
        self._peer = socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)[0]
        self._exchanges: dict[int, Exchange] = {}

    async def __aenter__(self) -> StampingTransport:
        self._epoll = select.epoll()
        asyncio.get_running_loop().add_reader(self._epoll, self.read)
        return self

    async def aclose(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll)
        self._epoll.close()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        stamps: Stamps = request.extensions[EXTENSION]
        loop, head = asyncio.get_running_loop(), _head(request)
        with socket.socket(self._peer[0], socket.SOCK_STREAM) as sock:
            await self._connect(sock, request)
            exchange = Exchange(sock, stamps, loop.create_future())
            stamps.sent_ns = time.monotonic_ns()
            try:
                await loop.sock_sendall(sock, head + request.content)
                self.watch(sock, exchange)
                await exchange.done
            except OSError as error:
                raise httpx.ReadError(error.strerror or str(error)) from error
            finally:
                if self._exchanges.pop(sock.fileno(), None) is not None:
                    self._epoll.unregister(sock)
        return httpx.Response(exchange.parser.get_status_code())

    async def _connect(self, sock: socket.socket, request: httpx.Request) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        try:
            async with asyncio.timeout(request.extensions["timeout"]["connect"]):
                await asyncio.get_running_loop().sock_connect(sock, self._peer[4])
        except TimeoutError as error:
            raise httpx.ConnectTimeout("timed out") from error
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error)) from error
        _delay_acks(sock)

    def watch(self, sock: socket.socket, exchange: Exchange) -> None:
        self._epoll.register(sock, select.EPOLLIN)
        self._exchanges[sock.fileno()] = exchange

    def read(self) -> None:
        """Read what has arrived on all sockets.

        A process that wakes for each arrival pays most for that, so those on many streams are given
        a moment to gather. Those on a few are not.
        """
        if len(self._exchanges) > FEW_STREAMS:
            time.sleep(PAUSE_S)
        for number, _ in self._epoll.poll(0):
            self._exchanges[number].read()


def _head(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    return b"\r\n".join((*lines, b"", b""))


def _delay_acks(sock: socket.socket) -> None:
    """To acknowledge each token at once costs more than to read it, and the engines do not wait for
    that (they set TCP_NODELAY)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


class Exchange:
    """The response to one request."""

    def __init__(self, sock: socket.socket, stamps: Stamps, done: asyncio.Future[None]) -> None:
        self.done = done
        self._sock = sock
        self.parser = httptools.HttpResponseParser(self)
        self._receive, self._feed = sock.recvmsg_into, self.parser.feed_data
        self._keep, self._lag = stamps.body.append, stamps.lags_ns.append
        # The largest of a few, since being interrupted between the two makes it smaller.
        self._clock_ns = max(time.time_ns() - time.monotonic_ns() for _ in range(5))
        self._at = time.monotonic_ns()
        self._framed = self._until_closed = False

    def read(self) -> None:
        """There is something to read."""
        try:
            size, told, _, _ = self._receive((BUFFER,), 64)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(httpx.ReadError(error.strerror or str(error)))
            return
        if not size:
            broken = httpx.RemoteProtocolError("the server closed the connection too early")
            self._end(None if self._until_closed else broken)
            return
        at = time.monotonic_ns()
        if told:
            seconds, rest = TIMESPEC.unpack(told[0][2])
            lag = at - (seconds * 10**9 + rest - self._clock_ns)
            if 0 <= lag < MAX_LAG_NS:
                self._lag(lag)
                at -= lag
        if at - self._at > DELAYED_ACK_NS:
            _delay_acks(self._sock)
        self._at = at
        try:
            self._feed(BUFFER[:size])
        except httptools.HttpParserError as error:
            self._end(httpx.RemoteProtocolError(f"not HTTP: {error}"))

    def _end(self, error: httpx.TransportError | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)

    # What httptools calls.

    def on_header(self, name: bytes, _: bytes) -> None:
        self._framed = self._framed or name.lower() in LENGTH_HEADERS

    def on_headers_complete(self) -> None:
        self._until_closed = not self._framed

    def on_body(self, body: bytes) -> None:
        self._keep((self._at, body))

    def on_message_complete(self) -> None:
        self._end(None)
