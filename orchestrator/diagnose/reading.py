"""Read a log of any size, in bounded time and memory.

Of a large log the first and the last `REGION` bytes are read: a start that failed shows its cause
near the top, a server that died later shows it near the end.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from backends.errors import InputError
from orchestrator.diagnose.text import clean

REGION = 4 * 2**20
"""Bytes read from the start, and again from the end."""
LINE = 4096
"""Characters kept of one line."""
LINES = 50_000
"""Lines kept of one region."""
STREAM = 2**30
"""Bytes taken from a pipe at most."""
_BLOCK = 2**20


class Line(NamedTuple):
    number: int | None
    """1-based; None where the part of the log before it was not read."""
    text: str


@dataclass(frozen=True)
class LogText:
    lines: tuple[Line, ...]
    skipped_bytes: int
    """Bytes between the two regions, which nobody looked at."""


def read_log(path: Path) -> LogText:
    """The log at `path`. Raises InputError when there is no such file."""
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(path.stat().st_mode):
                raise InputError(
                    "not a regular file", where=str(path), fix="Pipe it in: `museorch diagnose -`."
                )
            head = file.read(REGION)
            size = path.stat().st_size
            if size <= len(head):
                return _log(head, b"", 0)
            start = max(len(head), size - REGION)
            file.seek(start)
            return _log(head, file.read(REGION), start - len(head))
    except OSError as error:
        raise InputError(
            f"the log cannot be read: {error.strerror}",
            where=str(path),
            fix="Give the path of a server log or of a run directory.",
        ) from error


def read_stream(stream: BinaryIO) -> LogText:
    """A log from a pipe, kept to the same bounds."""
    head = bytearray()
    tail = bytearray()
    skipped = taken = 0
    while taken < STREAM and (block := stream.read(_BLOCK)):
        taken += len(block)
        room = REGION - len(head)
        head += block[:room]
        tail += block[room:]
        if (surplus := len(tail) - REGION) > 0:
            skipped += surplus
            del tail[:surplus]
    return _log(bytes(head), bytes(tail), skipped)


def _log(head: bytes, tail: bytes, skipped: int) -> LogText:
    if tail and not skipped:
        head, tail = head + tail, b""
    lines = tuple(_lines(head, first=1))
    if tail:
        lines += tuple(_lines(tail, first=None))
    return LogText(lines, skipped)


def _lines(data: bytes, first: int | None) -> Iterator[Line]:
    """Lines of a region; of too many, the first ones (or the last ones, for the last region)."""
    text = data.decode("utf-8", "replace")
    raw = text.split("\n", LINES)[:LINES] if first else text.rsplit("\n", LINES)[-LINES:]
    for offset, line in enumerate(raw):
        if not line:
            continue
        number = None if first is None else first + offset
        # A progress bar redraws itself with carriage returns: each redraw is a line to us.
        for part in line.split("\r", LINE) if "\r" in line else (line,):
            if part:
                yield Line(number, clean(part[:LINE]))
