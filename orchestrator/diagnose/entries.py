"""Take log lines apart: who wrote them, at which level, and what belongs to a traceback.

Processes of one engine write into one log, so a traceback is followed per source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orchestrator.diagnose.patterns import PatternSet
from orchestrator.diagnose.reading import Line

Role = Literal["line", "frame", "exception"]

_LEVELS = {
    "D": "DEBUG",
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "ERROR",
    "CRITICAL": "ERROR",
}
_COMPOSE = re.compile(r"[\w.-]{1,40} {1,8}\| ")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) ")
_JOURNAL = re.compile(r"[A-Z][a-z]{2} [ \d]\d [\d:]{8} [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,10}\]: ")
_PREFIXES = (
    (
        "(",
        re.compile(r"\((?P<source>[A-Za-z_][^()\n]{0,40}pid=\d{1,10})\) "),
    ),
    (
        "[",
        re.compile(r"(?P<source>\[rank\d{1,4}\]): ?"),
        re.compile(r"\[(?P<level>[IWEF])\d{4} [\d:.]{8,20} [^\]]{1,80}\] "),
        re.compile(r"\[\d{4}-\d\d-\d\d [\d:.,]{8,16}(?: [A-Z]{2,3}\d{1,4}){0,6}\] "),
    ),
    (
        "DIWEC",
        re.compile(
            r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)"
            r"(?: \d\d-\d\d [\d:.,]{8,16} \[[^\]]{1,120}\] ?|:(?:[\w.]{1,60}:|\s{1,6}))"
        ),
    ),
    (
        "0123456789",
        re.compile(r"\d{1,6}\.\d\d\.\d{3}\.\d{3} (?P<level>[DIWE]) "),
    ),
)
"""What engines put before a message, by its first character."""
_HEADER = "Traceback (most recent call last):"
_CHAIN = ("The above exception was", "During handling of the above")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?::(?: |$)|$)")
_GROUP = re.compile(r" *[|+] ?")
_PATIENCE = 2000
"""Lines of a traceback after which its exception line is no longer awaited."""
_OPEN = 256
"""Tracebacks followed at the same time."""


class Entry(NamedTuple):
    number: int | None
    level: str | None
    """None where the line does not say."""
    text: str
    """The line without the engine's prefix."""
    role: Role = "line"
    code: str = ""
    """For an exception: the source line that raised it."""


@dataclass(slots=True)
class _Traceback:
    headline: str
    """What was logged with it, or directly before it."""
    code: str = ""
    age: int = 0


def entries(lines: Iterable[Line], handled: PatternSet) -> Iterator[Entry]:
    """The lines of a log, understood.

    An exception under a headline that fits `handled` counts as one more frame.
    """
    tracebacks: dict[tuple[str, str | None], _Traceback] = {}
    before: dict[str, str] = {}  # the last message of each source
    for number, raw in lines:
        source, level, text = _split(raw)
        if text.lstrip(" ")[:1] in ("|", "+"):  # inside an exception group
            text = _GROUP.sub("", text, count=1)
        key = (source, level)
        if _HEADER in text:
            if len(tracebacks) >= _OPEN:
                tracebacks.clear()
                before.clear()
            own = text[: text.index(_HEADER)].strip(" :")
            tracebacks[key] = _Traceback(own or before.get(source, ""))
            yield Entry(number, level, text, "frame")
            continue
        traceback = tracebacks.get(key)
        if traceback is None:
            if text.strip() and not text.startswith(_CHAIN):
                before[source] = text
            yield Entry(number, level, text)
            continue
        traceback.age += 1
        if text[:1].isspace() or not text:
            code = text.strip(" ^~")
            if code and not code.startswith('File "'):
                traceback.code = code
            yield Entry(number, level, text, "frame")
        elif _EXCEPTION.match(text):
            del tracebacks[key]
            caught = handled.fits(traceback.headline.lower())
            yield Entry(number, level, text, "frame" if caught else "exception", traceback.code)
            before[source] = traceback.headline  # a chained traceback has the same one
        else:
            yield Entry(number, level, text)
        if traceback.age > _PATIENCE:
            tracebacks.pop(key, None)


def _split(text: str) -> tuple[str, str | None, str]:
    """Source, level and message of a line."""
    if text[:1].isspace():
        return "", None, text
    for outer in (_COMPOSE, _STAMP, _JOURNAL):  # of process managers
        if found := outer.match(text):
            text = text[found.end() :]
    source, level = "", None
    while found := _prefix(text):
        groups = found.groupdict()
        source += groups.get("source") or ""
        if mark := groups.get("level"):
            level = _LEVELS.get(mark, mark)
        text = text[found.end() :]
    return source, level, text


def _prefix(text: str) -> re.Match[str] | None:
    first = text[:1]
    for firsts, *prefixes in _PREFIXES:
        if first and first in firsts:
            for prefix in prefixes:
                if found := prefix.match(text):
                    return found
    return None
