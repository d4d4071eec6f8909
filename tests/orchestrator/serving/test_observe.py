"""Real processes, real sockets."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.planning.cards import NO_GPU
from orchestrator.serving import observe

LISTEN = """
import socket
one = socket.create_server(("127.0.0.1", 0))
print(one.getsockname()[1], flush=True)
input()
"""
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {LISTEN!r}])
"""
SPIN = "while True: pass"


@contextmanager
def python(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()  # its child ends with it
            time.sleep(0.05)
            process.kill()


def port(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.mark.parametrize("code", [LISTEN, PARENT])
def test_a_server_or_a_child_of_it_listens(code: str) -> None:
    with python(code) as process:
        number = port(process)
        seen = observe.server(process.pid, number)
        assert seen["listens"]
        assert seen["started"] == pytest.approx(time.time(), abs=10)
        assert observe.server(process.pid, number) == seen


def test_a_stale_server_on_the_port_is_another() -> None:
    with python(LISTEN) as stale, python(LISTEN) as ours:
        theirs, _ = port(stale), port(ours)
        assert not observe.server(ours.pid, theirs)["listens"]


def test_a_process_that_has_gone() -> None:
    with python("pass") as process:
        process.wait()
        pid = process.pid
    assert observe.server(pid, 1) == {"pid": pid, "started": None, "listens": False}


def test_load_of_others_is_told_and_the_engines_own_is_not() -> None:
    with python(LISTEN) as idle, python(SPIN) as other:
        number = port(idle)
        with observe.phase(idle.pid, number, NO_GPU, Path()) as foreign:
            time.sleep(1.2)
        with observe.phase(other.pid, number, NO_GPU, Path()) as own:
            time.sleep(1.2)
    assert foreign["server"]["before"] == foreign["server"]["after"]
    assert foreign["gpu"] == {"reason": NO_GPU}
    # What else runs on the machine is in both; the spinning process only in the first.
    assert foreign["load"]["foreign_threads"] > 0.15
    assert own["load"]["foreign_threads"] < own["load"]["threads"]
    assert not own["server"]["after"]["listens"]


def test_a_moment_is_too_short_to_tell_load() -> None:
    with (
        python(LISTEN) as process,
        observe.phase(process.pid, port(process), NO_GPU, Path()) as seen,
    ):
        pass
    assert seen["load"]["foreign_threads"] is None
