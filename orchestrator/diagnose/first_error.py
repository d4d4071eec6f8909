"""Find the first real error in an engine's log.

A dying server reports its end several times: the worker's traceback, its parent's `failed to
start`, the API server's `initialization failed`. The first of them is the cause. Python chains
exceptions the same way: the one raised first is printed first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from orchestrator.diagnose.entries import Entry
from orchestrator.diagnose.patterns import PatternSet

_HANDLED = ("DEBUG", "INFO", "WARNING")
_OPENS = re.compile(
    r"(?:fatal )?error(?::| while | when | loading | in | occurred|\(s\))|fatal:|what\(\):"
    r"|killed$|segmentation fault|illegal instruction|bus error|aborted\b|panic:"
    r"|[\w./ -]{1,80}: (?:fatal )?error(?:: | loading )",
    re.I,
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,150}(?:Error|Exception|Exit|Interrupt): \S")
_ANYWHERE = (
    "ggml_assert(", "error while loading shared libraries", ": no module named ", "cuda error:",
    ": command not found", "no space left on device", "(core dumped)", "terminate called",
)  # fmt: skip


_LONG = 300
"""Characters after which an exception's message is not completed from the next line."""


class ErrorLine(NamedTuple):
    line: int | None
    text: str
    late: bool = False
    """Whether it only reports that something else failed."""


def first_error(
    entries: Iterable[Entry],
    benign: PatternSet,
    consequences: PatternSet,
    stops: PatternSet,
) -> ErrorLine | None:
    """The first error that is neither harmless nor a mere report that something else failed.

    Exceptions outweigh other error lines. When there are only consequences, the first of them is
    returned, unless the server was told to stop before; last come tracebacks logged as warnings,
    which were handled.
    """
    best: dict[int, ErrorLine] = {}
    headline: tuple[int, str | None, ErrorLine] | None = None
    stopping = False

    def keep(rank: int, error: ErrorLine) -> None:
        low = error.text.lower()
        late = consequences.fits(low)
        if benign.fits(low) or (late and stopping):
            return
        best.setdefault(rank + 2 if late else rank, error._replace(late=late))

    for entry in entries:
        text = entry.text.strip()
        stopping = stopping or stops.fits(text.lower())
        if headline:  # its message is on this line, or a field's name is and the message follows
            rank, level, error = headline
            if entry.level == level:
                error = ErrorLine(error.line, f"{error.text} {text}")
            if entry.level != level or " " in text or not text or len(error.text) > _LONG:
                keep(rank, error)
                headline = None
            else:
                headline = (rank, level, error)
        elif entry.role == "exception":
            bare = entry.code and ":" not in text
            error = ErrorLine(entry.number, f"{text} at `{entry.code}`" if bare else text)
            rank = 4 if entry.level in _HANDLED else 0
            if text.endswith(":") or "validation error" in text:
                headline = (rank, entry.level, error)
            else:
                keep(rank, error)
        elif entry.role == "line" and entry.level not in _HANDLED and _is_error(entry.level, text):
            keep(1, ErrorLine(entry.number, text))
    if headline:
        keep(headline[0], headline[2])
    return best[min(best)] if best else None


def _is_error(level: str | None, text: str) -> bool:
    if level == "ERROR":
        return bool(text)
    if _OPENS.match(text) or _EXCEPTION.match(text):
        return True
    low = text.lower()
    return any(fragment in low for fragment in _ANYWHERE)
