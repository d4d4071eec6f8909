"""A hub on this machine: one repository per name, as huggingface_hub asks for it.

It can drop a connection in the middle of a file, once, and counts what was asked for.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    url: str
    repositories: Mapping[str, Mapping[str, bytes]]
    gated: frozenset[str] = frozenset()
    drop: dict[str, int] = field(default_factory=dict)
    """File to the byte after which its connection is dropped; once each."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Of files whose size is told wrong."""
    stall: dict[str, int] = field(default_factory=dict)
    """File to the byte after which nothing more comes, as long as the hub is there."""
    closing: threading.Event = field(default_factory=threading.Event)
    gets: list[tuple[str, str | None]] = field(default_factory=list)
    """(file, Range header) of every file that was asked for."""


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._api("/".join(parts[2:4]), parts[4:])
        elif len(parts) > 4 and parts[2] == "resolve":
            self._file("/".join(parts[:2]), "/".join(parts[4:]), body=body)
        else:
            self._json(404, {"error": "no such page"})

    def _api(self, repo: str, rest: list[str]) -> None:
        files = self.hub.repositories.get(repo)
        if files is None:
            self._json(404, {"error": "Repository not found"}, "RepoNotFound")
        elif repo in self.hub.gated:
            self._json(403, {"error": "Access is restricted"}, "GatedRepo")
        elif rest[:1] == ["tree"]:
            rows = [
                {
                    "type": "file",
                    "path": name,
                    "size": self.hub.sizes.get(name, len(data)),
                    "oid": _etag(data)[:40],
                }
                for name, data in files.items()
            ]
            self._json(200, rows)
        else:
            siblings = [{"rfilename": name} for name in files]
            self._json(200, {"id": repo, "sha": COMMIT, "siblings": siblings})

    def _json(self, status: int, data: object, code: str | None = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code is not None:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _file(self, repo: str, name: str, *, body: bool) -> None:
        data = self.hub.repositories.get(repo, {}).get(name)
        if data is None:
            self._json(404, {"error": "no such file"}, "EntryNotFound")
            return
        asked = self.headers.get("Range")
        first = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{_etag(data)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        size = len(data) if body else self.hub.sizes.get(name, len(data))
        self.send_header("Content-Length", str(size - first))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if not body:
            return
        self.hub.gets.append((name, asked))
        stalled = self.hub.stall.get(name)
        stop = stalled if stalled is not None else self.hub.drop.pop(name, None)
        self.wfile.write(data[first:stop])
        if stop is not None:
            self.wfile.flush()
            if stalled is not None:
                self.hub.closing.wait()
            self.close_connection = True
            self.connection.close()


@contextmanager
def serving(
    repositories: Mapping[str, Mapping[str, bytes]], *, gated: frozenset[str] = frozenset()
) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_address[1]}", repositories, gated)
    server.RequestHandlerClass = type("Handler", (_Handler,), {"hub": hub})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
