"""What a person or a machine sees while a run goes on.

A terminal gets one moving line; a log gets a line per turn and phase; `lines` gives one JSON object
per event to whatever watches the run. All of it goes to stderr, so that stdout holds results only.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from types import TracebackType
from typing import Any, TextIO

from orchestrator.load.arrivals import decode_intervals
from orchestrator.load.sample import Sample
from orchestrator.report.safe import plain
from orchestrator.rundir import BOOKEND


class Progress:
    """Told of every step by the flow; asks nothing back."""

    def __init__(
        self, *, quiet: bool = False, lines: bool = False, stream: TextIO | None = None
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._lines = lines and not quiet
        self._moving = not quiet and not lines and self._stream.isatty()
        self._began = time.monotonic()
        self._title = ""
        self._arm = ""
        self._turn = self._turns = 0
        self._turn_began = self._began
        self._turn_seconds: list[float] = []
        self._phase = _Phase("", 1, 0)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clear()

    def turn(self, number: int, total: int, arm: str, repeat: int) -> None:
        now = time.monotonic()
        if self._turn:
            self._turn_seconds.append(now - self._turn_began)
        self._turn, self._turns, self._turn_began = number, total, now
        self._arm, self._phase = arm, _Phase("", 1, 0)
        later = f", block {repeat - 1}" if repeat > BOOKEND else ""
        again = " again, for drift" if repeat == BOOKEND else later
        self._title = f"[{number}/{total}] {arm}{again}"
        self._event("turn", turn=number, turns=total, arm=arm, repeat=repeat)
        self._line(f"{self._title}{self._left()}")

    def detail(self, text: str) -> None:
        """A short state, for instance of a server that starts."""
        self._event("detail", arm=self._arm, text=text)
        self._move(f"{self._title}: {text}" if self._title else text)

    def phase(self, mode: str, concurrency: int, total: int) -> None:
        self._phase = _Phase(mode, concurrency, total)
        self._event("phase", arm=self._arm, **self._phase.place())

    def sample(self, sample: Sample) -> None:
        phase = self._phase
        phase.add(sample)
        self._event(
            "sample",
            arm=self._arm,
            **phase.place(),
            done=phase.done,
            failed=phase.failed,
            decode_tok_s=phase.rate(),
            acceptance_length=phase.acceptance_length(),
            seconds_left=phase.seconds_left(),
        )
        if phase.done == phase.total:
            self._line(f"  {phase.text()}")
        else:
            self._move(f"{self._title}: {phase.text()}, {_clock(phase.seconds_left())} left")

    def note(self, text: str) -> None:
        """A line that stays."""
        self._event("note", text=text)
        self._line(text)

    def _left(self) -> str:
        """Of the whole run, from what turns have taken so far."""
        if not self._turn_seconds:
            return ""
        mean = sum(self._turn_seconds) / len(self._turn_seconds)
        return f", about {_clock(mean * (self._turns - self._turn + 1))} left"

    def _event(self, name: str, **facts: Any) -> None:
        if self._lines:
            seconds = round(time.monotonic() - self._began, 3)
            event = {"event": name, "seconds": seconds} | facts
            print(json.dumps(event), file=self._stream, flush=True)

    def _line(self, text: str) -> None:
        if self._quiet or self._lines:
            return
        self._clear()
        now = _clock(time.monotonic() - self._began)
        print(f"{now} {plain(text)}", file=self._stream, flush=True)

    def _move(self, text: str) -> None:
        if self._moving:
            self._clear()
            width = shutil.get_terminal_size().columns - 2
            print(plain(text)[:width], end="\r", file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._moving:
            print("\x1b[2K", end="\r", file=self._stream, flush=True)


class _Phase:
    """Sums over the requests of one phase, so that a long one costs no more per request."""

    def __init__(self, mode: str, concurrency: int, total: int) -> None:
        self.mode, self.concurrency, self.total = mode, concurrency, total
        self.done = self.failed = 0
        self._began = time.monotonic()
        self._tokens, self._seconds = 0, 0.0
        self._steps = self._accepted = 0

    def add(self, sample: Sample) -> None:
        self.done += 1
        if sample.error is not None:
            self.failed += 1
            return
        for tokens, seconds in decode_intervals([sample]):
            self._tokens += tokens
            self._seconds += seconds
        told = sample.server
        if told is not None and told.steps is not None and told.accepted is not None:
            self._steps += told.steps
            self._accepted += told.accepted

    def place(self) -> dict[str, Any]:
        return {"mode": self.mode, "concurrency": self.concurrency, "total": self.total}

    def rate(self) -> float | None:
        return self._tokens / self._seconds if self._seconds else None

    def acceptance_length(self) -> float | None:
        """Of the requests that tell; None where none does."""
        return 1 + self._accepted / self._steps if self._steps else None

    def seconds_left(self) -> float:
        took = time.monotonic() - self._began
        return took / self.done * (self.total - self.done)

    def text(self) -> str:
        name = self.mode if self.concurrency == 1 else f"{self.mode}, {self.concurrency} at a time"
        text = f"{name}: {self.done}/{self.total} prompts"
        rate, length = self.rate(), self.acceptance_length()
        text += f", {rate:.1f} tok/s a request" if rate is not None else ""
        text += f", tau {length:.2f}" if length is not None else ""
        return text + (f", {self.failed} failed" if self.failed else "")


def _clock(seconds: float) -> str:
    """`mm:ss`, with hours where there are any."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"
