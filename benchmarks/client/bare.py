"""Sockets read by hand as bytes arrive, without an HTTP library: stamps and stores.

    python -m benchmarks.client.bare HOST PORT REQUESTS MAX_TOKENS CONCURRENCY FOLDER

Shows what reading costs before anything is parsed, and that the mock holds its rates.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

END = b"\r\n0\r\n\r\n"


@dataclass
class Stream:
    sock: socket.socket
    start: float = 0.0
    parts: list[tuple[float, bytes]] = field(default_factory=list)

    def send(self, request: bytes) -> None:
        self.start, self.parts = time.monotonic(), []
        self.sock.sendall(request)

    def record(self) -> tuple[float, float, float, int]:
        """(start, first, last, tokens); a token an event, the usage event left out."""
        tokens = b"".join(part for _, part in self.parts).count(b"data: {") - 1
        first = next(at for at, part in self.parts if b"data: " in part)
        return self.start, first, self.parts[-1][0], tokens


def main() -> None:
    host, port, requests, max_tokens, concurrency, folder = sys.argv[1:]
    body = json.dumps({"prompt": [1] * 8, "max_tokens": int(max_tokens), "stream": True})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    request = (head + body).encode()
    records = []
    to_send = int(requests)
    streams: dict[int, Stream] = {}
    with select.epoll() as epoll:
        for _ in range(min(int(concurrency), to_send)):
            stream = Stream(socket.create_connection((host, int(port))))
            streams[stream.sock.fileno()] = stream
            epoll.register(stream.sock, select.EPOLLIN)
            stream.send(request)
            to_send -= 1
        while streams:
            for handle, _ in epoll.poll():
                stream = streams[handle]
                part = stream.sock.recv(1 << 16)
                stream.parts.append((time.monotonic(), part))
                if part and not part.endswith(END):
                    continue
                records.append(stream.record())
                if to_send:
                    to_send -= 1
                    stream.send(request)
                else:
                    epoll.unregister(handle)
                    streams.pop(handle).sock.close()
    (Path(folder) / "records.json").write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main()
