"""What a person sees while a run goes on: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from orchestrator.metrics import decode_intervals
from orchestrator.sample import Sample


class Progress:
    """Writes to stderr, so that stdout holds results only."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._moving = not quiet and self._stream.isatty()
        self._title = ""
        self._phase = ""
        self._samples: list[Sample] = []
        self._total = 0
        self._began = time.monotonic()

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
        again = " again, for drift" if repeat > 1 else ""
        self._title = f"[{number}/{total}] {arm}{again}"
        self._phase, self._samples, self._total = "", [], 0
        self.note(self._title)

    def detail(self, text: str) -> None:
        """A short state, for instance of a server that starts."""
        self._move(f"{self._title}: {text}")

    def phase(self, mode: str, concurrency: int, total: int) -> None:
        self._phase = mode if concurrency == 1 else f"{mode}, {concurrency} at a time"
        self._samples, self._total = [], total

    def sample(self, sample: Sample) -> None:
        self._samples.append(sample)
        text = f"{self._phase}: {len(self._samples)}/{self._total} prompts"
        intervals = decode_intervals([s for s in self._samples if s.error is None])
        if intervals:
            rate = sum(n for n, _ in intervals) / sum(s for _, s in intervals)
            text += f", {rate:.1f} tok/s a request"
        if len(self._samples) == self._total:
            self.note(f"  {text}")
        else:
            self._move(f"{self._title}: {text}")

    def note(self, text: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        self._clear()
        seconds = int(time.monotonic() - self._began)
        print(f"{seconds // 60:02d}:{seconds % 60:02d} {text}", file=self._stream, flush=True)

    def _move(self, text: str) -> None:
        if self._moving:
            self._clear()
            print(text[:78], end="\r", file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._moving:
            print("\x1b[2K", end="\r", file=self._stream, flush=True)
