"""httpx's transport for streams that are measured.

httpx's own hands every piece of a body up through a task and six layers, which costs more than all
the rest of the client. Here asyncio's protocol stamps and stores the pieces, and httpx gets the
response when it has ended. What was measured: docs/dependencies.md.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import httptools
import httpx

READ_BYTES = 65536
LENGTH_HEADERS = {b"content-length", b"transfer-encoding"}
"""Without either, a response ends where its connection does."""
EXTENSION = "stamps"
"""Of a httpx.Request: the Stamps to fill in."""


@dataclass
class Stamps:
    """What is noted of one request while it runs. Monotonic ns."""

    sent_ns: int | None = None
    """When the request was handed to the socket; None when there was no connection."""
    body: list[tuple[int, bytes]] = field(default_factory=list)
    """(arrival, bytes) of each piece of the response's body."""


class StampingTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 with a connection per request: llama-server closes some kept ones on reuse.

    Raises httpx's ConnectError, ConnectTimeout, ReadError and RemoteProtocolError. What had arrived
    by then is in the request's Stamps.
    """

    def __init__(self, base_url: str) -> None:
        # Loading a certificate store takes a while, and plain HTTP has no use for it.
        secure = base_url.startswith("https:")
        self._tls = httpx.create_ssl_context(trust_env=False) if secure else None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        stamps: Stamps = request.extensions[EXTENSION]
        exchange = await self._connect(request, stamps)
        try:
            exchange.send(request)
            await exchange.done
        finally:
            exchange.transport.abort()
        return httpx.Response(exchange.parser.get_status_code())

    async def _connect(self, request: httpx.Request, stamps: Stamps) -> _Exchange:
        loop, url = asyncio.get_running_loop(), request.url
        port = url.port if url.port is not None else (443 if self._tls else 80)
        try:
            async with asyncio.timeout(request.extensions["timeout"]["connect"]):
                _, exchange = await loop.create_connection(
                    lambda: _Exchange(loop, stamps), url.host, port, ssl=self._tls
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("timed out", request=request) from error
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error), request=request) from error
        return exchange


class _Exchange(asyncio.BufferedProtocol):
    """One request and its response.

    Its own buffer is read into, since asyncio would allocate 256 KiB for every read. Nothing of
    what is read stays in it, so all exchanges share it.
    """

    _buffer = memoryview(bytearray(READ_BYTES))
    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, stamps: Stamps) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self._framed = self._until_closed = False
        self.parser = httptools.HttpResponseParser(self)
        self._feed, self._keep, self._now = self.parser.feed_data, stamps.body.append, 0
        self._stamps = stamps

    def send(self, request: httpx.Request) -> None:
        lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
        lines += [b"%b: %b" % pair for pair in request.headers.raw]
        self._stamps.sent_ns = time.monotonic_ns()
        self.transport.write(b"\r\n".join((*lines, b"", request.content)))

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self._now = time.monotonic_ns()
        try:
            self._feed(self._buffer[:size])
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"not HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(httpx.ReadError(str(error)))
        elif self._until_closed:
            self.on_message_complete()
        else:
            self._fail(httpx.RemoteProtocolError("the server closed the connection too early"))

    # What httptools calls.

    def on_header(self, name: bytes, _: bytes) -> None:
        self._framed = self._framed or name.lower() in LENGTH_HEADERS

    def on_headers_complete(self) -> None:
        self._until_closed = not self._framed

    def on_body(self, body: bytes) -> None:
        self._keep((self._now, body))

    def on_message_complete(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: httpx.TransportError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
