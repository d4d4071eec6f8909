"""Take log lines apart: who wrote them, at which level, and what belongs to a traceback.

Processes of one engine write into one log, so a traceback is followed per source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.diagnose.catalogue import any_fits
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
_PREFIXES = (
    # Process managers put their own mark first: journald, then containers.
    re.compile(r"[A-Z][a-z]{2} [ \d]\d [\d:]{8} [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,10}\]: "),
    re.compile(r"(?:[\w.-]{1,40} {1,4}\| )?\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) "),
    re.compile(r"\((?P<source>[A-Za-z_][^()\n]{0,40}pid=\d{1,10})\) "),
    re.compile(r"(?P<source>\[rank\d{1,4}\]): ?"),
    re.compile(
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.,]{8,16} \[[^\]]{1,120}\] ?"
    ),
    re.compile(r"\[(?P<level>[IWEF])\d{4} [\d:.]{8,20} [^\]]{1,80}\] "),
    re.compile(r"\d{1,6}\.\d\d\.\d{3}\.\d{3} (?P<level>[DIWE]) "),
    re.compile(r"\[\d{4}-\d\d-\d\d [\d:.,]{8,16}(?: [A-Z]{2,3}\d{1,4}){0,6}\] "),
    re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:[\w.]{1,60}:|\s{1,6})"),
)
_HEADER = "Traceback (most recent call last):"
_CHAIN = ("The above exception was", "During handling of the above")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?::(?: |$)|$)")
_GROUP = re.compile(r" *[|+] ?")
_PATIENCE = 2000
"""Lines of a traceback after which its exception line is no longer awaited."""
_OPEN = 256
"""Tracebacks followed at the same time."""


@dataclass(frozen=True, slots=True)
class Entry:
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


def entries(lines: Iterable[Line], handled: Sequence[str] = ()) -> Iterator[Entry]:
    """The lines of a log, understood.

    An exception under a headline that fits a pattern of `handled` counts as one more frame.
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
            caught = any_fits(handled, traceback.headline.lower())
            yield Entry(number, level, text, "frame" if caught else "exception", traceback.code)
            before[source] = traceback.headline  # a chained traceback has the same one
        else:
            yield Entry(number, level, text)
        if traceback.age > _PATIENCE:
            tracebacks.pop(key, None)


def _split(text: str) -> tuple[str, str | None, str]:
    """Source, level and message of a line."""
    source, level = "", None
    for prefix in _PREFIXES:
        if found := prefix.match(text):
            groups = found.groupdict()
            source += groups.get("source") or ""
            if mark := groups.get("level"):
                level = _LEVELS.get(mark, mark)
            text = text[found.end() :]
    return source, level, text
