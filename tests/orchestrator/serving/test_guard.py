from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.serving import guard
from tests.fakes import eventually, gone

SLEEP = ("sleep", "600")
DEAF = """
import signal, time
signal.signal(15, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
# Ends on TERM, but leaves a child behind that has left the group and does not heed TERM.
WITH_CHILD = f"""
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c", {DEAF!r}], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
open(sys.argv[1], "w").write(str(child.pid))
if len(sys.argv) > 2:
    sys.exit(int(sys.argv[2]))
time.sleep(600)
"""


class Guarded:
    """A guard as museorch starts it, with its pipe in our hands."""

    def __init__(self, folder: Path, *argv: str, flags: tuple[str, ...] = ()) -> None:
        self.log = folder / "server.log"
        command = [sys.executable, "-I", "-S", guard.__file__, "--log", str(self.log)]
        self.process = subprocess.Popen(
            [*command, "--grace", "0.3", *flags, "--", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin
        self.word, _, rest = self.process.stdout.readline().decode().strip().partition(" ")
        self.pid = int(rest) if self.word == "pid" else 0
        self.rest = rest

    def logged(self, text: str) -> bool:
        return eventually(lambda: text in self.log.read_text())

    def end(self) -> None:
        self.stdin.close()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def started() -> Iterator[list[Guarded]]:
    all_started: list[Guarded] = []
    yield all_started
    for one in all_started:
        one.process.terminate()
        one.end()


def test_status_and_output_are_the_engines(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 7"))
    assert started[0].process.wait(5) == 7
    assert started[0].log.read_text() == "out\nerr\n"


def test_a_signal_shows_in_the_status(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, *SLEEP))
    os.kill(started[0].pid, signal.SIGSEGV)
    assert started[0].process.wait(5) == 128 + signal.SIGSEGV


def test_what_cannot_be_run_is_told(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, "/no/such/engine"))
    assert (started[0].word, started[0].rest) == (
        "error",
        "/no/such/engine: No such file or directory",
    )
    assert started[0].process.wait(5) == 127


def test_a_closed_pipe_ends_the_engine(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, *SLEEP))
    started[0].stdin.close()
    assert started[0].process.wait(5) == 128 + signal.SIGTERM
    assert gone(started[0].pid)


def test_term_ends_the_engine(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, *SLEEP))
    started[0].process.terminate()
    assert started[0].process.wait(5) == 128 + signal.SIGTERM


def test_an_engine_that_ignores_term_is_killed_after_the_grace(
    tmp_path: Path, started: list[Guarded]
) -> None:
    started.append(Guarded(tmp_path, sys.executable, "-c", DEAF))
    assert started[0].logged("deaf")
    began = time.monotonic()
    started[0].stdin.close()
    assert started[0].process.wait(5) == 128 + signal.SIGKILL
    assert time.monotonic() - began >= 0.3


def test_asked_again_it_does_not_wait_for_the_grace(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, sys.executable, "-c", DEAF, flags=("--grace", "60")))
    assert started[0].logged("deaf")
    started[0].stdin.close()
    time.sleep(0.1)
    started[0].process.terminate()
    assert started[0].process.wait(5) == 128 + signal.SIGKILL


@pytest.mark.parametrize("status", [None, 4], ids=["asked to end", "ends by itself"])
def test_a_child_outside_the_group_is_killed_too(
    tmp_path: Path, started: list[Guarded], status: int | None
) -> None:
    told = tmp_path / "child"
    own = () if status is None else (str(status),)
    started.append(Guarded(tmp_path, sys.executable, "-c", WITH_CHILD, str(told), *own))
    assert eventually(lambda: told.exists() and told.read_text() != "")
    if status is None:
        started[0].stdin.close()
    assert started[0].process.wait(5) == (143 if status is None else status)
    assert gone(int(told.read_text()))


def test_the_engine_dies_with_a_killed_guard(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, *SLEEP))
    started[0].process.kill()
    assert eventually(lambda: gone(started[0].pid))


def test_detached_it_outlives_its_pipe_and_a_hangup(tmp_path: Path, started: list[Guarded]) -> None:
    started.append(Guarded(tmp_path, *SLEEP, flags=("--detach",)))
    started[0].stdin.close()
    started[0].process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        started[0].process.wait(0.3)
    assert not gone(started[0].pid)
    started[0].process.terminate()
    assert started[0].process.wait(5) == 128 + signal.SIGTERM
    assert gone(started[0].pid)
