"""Say why a server failed, from its log: the first cause, not the last line."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from orchestrator.diagnose.catalogue import Level, catalogue
from orchestrator.diagnose.entries import entries
from orchestrator.diagnose.first_error import first_error
from orchestrator.diagnose.match import Match, detect, matches
from orchestrator.diagnose.patterns import PatternSet
from orchestrator.diagnose.reading import LogText, read_log, read_stream
from orchestrator.diagnose.text import safe

__all__ = ["Cause", "Diagnosis", "diagnose", "diagnose_stream", "first_cause"]


@dataclass(frozen=True)
class Cause:
    """A signature that fits the log. Texts from the log are cleaned and masked."""

    signature: str
    title: str
    level: Level
    cause: str
    fix: str
    line: int | None
    """1-based; None where the log is too large to count lines up to there."""
    evidence: str
    versions: str | None
    source: str


@dataclass(frozen=True)
class Diagnosis:
    engine: str | None
    engine_version: str | None
    findings: tuple[Cause, ...]
    """Most likely first: causes in the order of the log, then consequences, then warnings."""
    first_error: str | None
    first_error_line: int | None
    cause_missing: bool
    """The log holds no error, or only reports that something else failed."""
    skipped_bytes: int
    """Middle of a large log that was not looked at."""

    @property
    def explained(self) -> bool:
        """False when the log holds an error that no signature of a failure fits."""
        return self.first_error is None or self._top is not None

    @property
    def summary(self) -> str | None:
        """One line: the first cause and what to do; None when the log holds no error."""
        top = self._top
        return f"{top.evidence} -> {top.cause} {top.fix}" if top else self.first_error

    @property
    def _top(self) -> Cause | None:
        """The finding that explains the failure.

        A consequence only where no cause is shown, a warning only where it is the first error.
        """
        levels = ("error", "consequence") if self.cause_missing else ("error",)
        for finding in self.findings:
            first = finding.line is not None and finding.line == self.first_error_line
            if finding.level in levels or (finding.level == "warning" and first):
                return finding
        return None


def diagnose(log: Path) -> Diagnosis:
    """What the log at `log` tells. Raises InputError when it cannot be read."""
    return _diagnose(read_log(log))


def diagnose_stream(stream: BinaryIO) -> Diagnosis:
    """The same for a log that comes through a pipe."""
    return _diagnose(read_stream(stream))


def first_cause(log: Path, exit_status: int | None = None) -> str | None:
    """Why a start failed, in one line; None when the log holds no error.

    `exit_status` as `subprocess` gives it (negative for a signal): a server killed from outside
    writes nothing, so then the signal is the cause.
    """
    summary = diagnose(log).summary
    if summary is None and exit_status is not None:
        return _SIGNALS.get(exit_status) or _SIGNALS.get(128 - exit_status)
    return summary


_SIGNALS = {
    -signal.SIGKILL: "killed by signal 9 -> Most often the kernel, out of host memory. Look for"
    " `Out of memory: Killed process` in the kernel log (`dmesg`); lower context, slots or model.",
    -signal.SIGSEGV: "crashed with a segmentation fault -> A bug in the engine or a mismatched"
    " driver or library. Try another version of the engine.",
    -signal.SIGILL: "illegal instruction -> The engine was built for a newer CPU than this one."
    " Build it on this machine.",
    -signal.SIGABRT: "aborted without a message -> Start it again with verbose logging.",
    -signal.SIGBUS: "bus error -> Shared memory or the disk under a mapped file is full."
    " In a container give more with `--shm-size` or use `--ipc=host`.",
}
_RANK: dict[Level, int] = {"error": 0, "consequence": 1, "warning": 2}


def _diagnose(log: LogText) -> Diagnosis:
    files = catalogue()
    late = [s for file in files for s in file.signatures if s.level == "consequence"]
    benign = PatternSet([text for file in files for text in file.benign])
    consequences = PatternSet(
        [text for file in files for text in file.consequences]
        + [text for s in late for text in s.patterns if isinstance(text, str)]
    )
    stops = PatternSet([text for file in files for text in file.stops])
    handled = PatternSet([text for file in files for text in file.handled])
    read = tuple(entries(log.lines, handled))
    engine = detect(read, files)
    error = first_error(read, benign, consequences, stops)
    found = matches(read, files, engine, benign)
    found.sort(key=lambda match: (_RANK[match.signature.level], match.order))
    return Diagnosis(
        engine.name,
        engine.version,
        tuple(_cause(match) for match in found),
        safe(error.text) if error else None,
        error.line if error else None,
        error is None or error.late,
        log.skipped_bytes,
    )


def _cause(match: Match) -> Cause:
    signature = match.signature
    return Cause(
        signature.id,
        signature.title,
        signature.level,
        signature.cause,
        signature.fix,
        match.entry.number,
        safe(match.entry.text),
        signature.versions,
        signature.source,
    )
