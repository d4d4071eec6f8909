"""Server-sent events, taken apart after the stream has ended.

While a stream runs, the client only keeps (arrival, raw bytes). Here the bytes become events, each
with the arrival of the bytes that completed it, however the network cut them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

DATA = b"data: "
LF = b"\n"[0]
DONE = b"[DONE]"
"""Data of the event by which OpenAI-style servers end a stream."""

_BOM = b"\xef\xbb\xbf"


def events(raw: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """(arrival ns, data) of every complete event in `raw`, up to [DONE], which is left out.

    Rules of the WHATWG event-stream format: lines end in CR, LF or CRLF; a line starting with a
    colon is a comment; the data lines of an event are joined by LF; an event that no blank line
    ends is dropped; events without data are none.
    """
    if b"\r" in b"".join([part for _, part in raw]):
        raw = list(_with_lf(raw))
    rest = b""
    for at, part in raw:
        # Nearly every piece is a whole event, and its data one line.
        if not rest and part[:6] == DATA and part.find(b"\n") == len(part) - 2 and part[-1] == LF:
            data = part[6:-2]
            if data == DONE:
                return
            yield at, data
            continue
        *blocks, rest = (rest + part).split(b"\n\n")
        for found in map(_data, blocks):
            if found == DONE:
                return
            if found is not None:
                yield at, found


def _with_lf(raw: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """`raw` with every line ended by LF. A CR ends its line before it is known if a LF follows."""
    after_cr = False
    for at, part in raw:
        text = part.removeprefix(b"\n") if after_cr else part
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        after_cr = part.endswith(b"\r") if part else after_cr
        yield at, text


def _data(block: bytes) -> bytes | None:
    """The data lines of an event; None without any."""
    values = []
    for line in block.removeprefix(_BOM).split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            values.append(value.removeprefix(b" "))
    return b"\n".join(values) if values else None
