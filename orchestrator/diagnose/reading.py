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
LINES = 25_000
"""Lines kept from the start of a region, and again from its end."""
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
    """What nobody looked at, in the middle."""


def read_log(path: Path) -> LogText:
    """The log at `path`. Raises InputError when there is no such file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would wait for its writer
            raise InputError(
                "not a regular file", where=str(path), fix="Pipe it in: `museorch diagnose -`."
            )
        with path.open("rb") as file:
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
    elif tail:  # half a line on either side of the gap says the wrong thing
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :]
    lines: list[Line] = []
    dropped = _take(head, lines, numbered=True)
    if tail:
        dropped += _take(tail, lines, numbered=False)
    return LogText(tuple(lines), skipped + dropped)


def _take(data: bytes, lines: list[Line], *, numbered: bool) -> int:
    """Append the lines of a region, the first and the last ones of many; how many bytes it left."""
    text = data.decode("utf-8", "replace")
    top = text.split("\n", LINES)
    rest = top.pop() if len(top) > LINES else None
    lines += _lines(top, 1 if numbered else None)
    if rest is None:
        return 0
    bottom = rest.rsplit("\n", LINES)
    left = bottom.pop(0) + "\n" if len(bottom) > LINES else ""
    lines += _lines(bottom, LINES + 1 + left.count("\n") if numbered else None)
    return len(left)


def _lines(raw: list[str], first: int | None) -> Iterator[Line]:
    for offset, line in enumerate(raw):
        number = None if first is None else first + offset
        # A progress bar redraws itself with carriage returns: each redraw is a line to us.
        for part in line.split("\r", LINE) if "\r" in line else (line,):
            if part:
                yield Line(number, clean(part[:LINE]))
