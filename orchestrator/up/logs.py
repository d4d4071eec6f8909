"""A server's log for a terminal: its end, then what comes, with nothing in it that acts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from backends.errors import InputError
from orchestrator.diagnose.text import safe
from orchestrator.up import state as book

END_BYTES = 4 << 20
LINE_BYTES = 1 << 16
POLL_S = 0.2


def log_of(name: str | None) -> tuple[Path, Callable[[], bool]]:
    """The log and whether its server still runs. Also the log a failed start left behind."""
    left = book.servers() / book.check_name(name) / book.LOG if name is not None else None
    if left is not None and left.is_file() and not (left.parent / book.STATE).exists():
        return left, lambda: False
    state = book.only(name)
    if not state.log.is_file():
        raise InputError("it has no log yet.", where=state.name)
    return state.log, lambda: state.standing != "ended"


def tail(log: Path, lines: int, more: Callable[[], bool]) -> Iterator[str]:
    """The last `lines`, then new ones while `more` says so. Long lines come in pieces."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - END_BYTES))
        whole = file.read(END_BYTES).splitlines()
        yield from (_shown(line) for line in whole[len(whole) - lines :] if lines)
        while True:
            going_on = more()
            while line := file.readline(LINE_BYTES):
                yield _shown(line)
            if not going_on:
                return
            time.sleep(POLL_S)


def _shown(line: bytes) -> str:
    return safe(line[:LINE_BYTES].decode(errors="replace"), limit=LINE_BYTES)
