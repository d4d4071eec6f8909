from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.load.stream import events

NEWLINES = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINES = st.binary(max_size=12).filter(
    lambda line: b"\r" not in line and b"\n" not in line and line != b"[DONE]"
)
# What a server may send between events: comments, keep-alives, other fields, blank lines.
BETWEEN = st.lists(
    st.sampled_from([b": keep-alive", b":", b"event: message", b"id: 7", b"retry: 10", b"dat: x"]),
    max_size=2,
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, bytes]]]:
    """A stream, and (position of the byte that completes it, data) of every event in it.

    A CR ends a line whether or not a LF follows.
    """
    text, expected = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])), []
    for data in draw(st.lists(st.lists(LINES, min_size=1, max_size=2), max_size=5)):
        newline = draw(NEWLINES)
        for line in draw(BETWEEN):
            text += line + newline
        space = draw(st.sampled_from([b"", b" "]))
        for line in data:
            # Without a space of its own, a line that starts with one would lose it.
            text += b"data:" + (space or b" " * line.startswith(b" ")) + line + newline
        text += newline
        expected.append((len(text) - len(newline), b"\n".join(data)))
        if draw(st.booleans()):
            text += b": ping\n\n"
    return text, expected


def cut(text: bytes, places: list[int]) -> list[tuple[int, bytes]]:
    """`text` in pieces that arrive at 1, 2, 3, ... ns."""
    bounds = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [(number, text[a:b]) for number, (a, b) in enumerate(pairwise(bounds), start=1)]


def arrival(raw: list[tuple[int, bytes]], position: int) -> int:
    ends = accumulate(len(part) for _, part in raw)
    return next(at for (at, _), end in zip(raw, ends, strict=True) if end > position)


@given(streams(), st.lists(st.integers(0, 200), max_size=12))
def test_events_do_not_depend_on_how_the_stream_was_cut(
    stream: tuple[bytes, list[tuple[int, bytes]]], places: list[int]
) -> None:
    text, expected = stream
    raw = cut(text, places)
    assert list(events(raw)) == [(arrival(raw, position), data) for position, data in expected]


@given(streams())
@example((b"data: a\r\n\r\ndata: b\r\n\r\n", [(9, b"a"), (20, b"b")]))
def test_one_byte_at_a_time(stream: tuple[bytes, list[tuple[int, bytes]]]) -> None:
    text, expected = stream
    raw = [(at, text[at : at + 1]) for at in range(len(text))]
    assert list(events(raw)) == expected


def test_done_ends_the_stream() -> None:
    raw = [(1, b'data: {"a":1}\n\ndata: [DONE]\n\ndata: {"late":1}\n\n')]
    assert list(events(raw)) == [(1, b'{"a":1}')]


def test_an_event_without_its_blank_line_is_dropped() -> None:
    assert list(events([(1, b"data: whole\n\ndata: half\n")])) == [(1, b"whole")]


def test_several_events_in_one_piece_share_its_arrival() -> None:
    assert list(events([(5, b"data: a\n\nda"), (9, b"ta: b\n\ndata: c\n\n")])) == [
        (5, b"a"),
        (9, b"b"),
        (9, b"c"),
    ]


def test_nothing_arrived() -> None:
    assert list(events([])) == []
