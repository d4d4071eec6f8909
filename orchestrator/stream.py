"""Server-sent events, taken apart after the stream has ended.

While a stream runs, the client only keeps (arrival, raw bytes). Here the bytes become events, each
with the arrival of the bytes that completed it, however the network cut them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

DONE = b"[DONE]"
"""Data of the event by which OpenAI-style servers end a stream."""

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n)")
_BOM = b"\xef\xbb\xbf"


def events(raw: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """(arrival ns, data) of every complete event in `raw`, up to [DONE], which is left out.

    Rules of the WHATWG event-stream format: lines end in CR, LF or CRLF; a line starting with a
    colon is a comment; the data lines of an event are joined by LF; an event that no blank line
    ends is dropped; events without data are none.
    """
    text = b"".join(part for _, part in raw)
    start = len(_BOM) if text.startswith(_BOM) else 0
    ends = _arrivals(raw)
    arrival, until = next(ends, (0, 0))
    data: list[bytes] = []
    for match in _LINE.finditer(text, start):
        line = match[1]
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            continue
        if not data:
            continue
        while until < match.end():
            arrival, until = next(ends)
        event = b"\n".join(data)
        data.clear()
        if event == DONE:
            return
        yield arrival, event


def _arrivals(raw: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, int]]:
    """(arrival, number of bytes that had arrived by then) of each raw chunk."""
    total = 0
    for at, part in raw:
        total += len(part)
        yield at, total
