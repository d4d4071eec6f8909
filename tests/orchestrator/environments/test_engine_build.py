"""Builds of tiny environments out of real steps: the whole folder comes about, or none of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from backends.errors import EngineError
from backends.install import Environment, Run, Step, Write
from orchestrator.environments.engine_build import MANIFEST, build, locked

ENGINE = Write("Write the engine", "bin/engine", "#!/bin/sh\necho engine\n")


def environment(*steps: Step, **changes: object) -> Environment:
    fields: dict[str, object] = {
        "backend": "llamacpp",
        "version": "1.0",
        "device": "cpu",
        "steps": (ENGINE, *steps),
        "executable": "bin/engine",
        "disk_bytes": 1000,
    }
    return Environment(**(fields | changes))  # type: ignore[arg-type]


def python(title: str, code: str, **options: object) -> Run:
    return Run(title, ("{python}", "-c", code), **options)  # type: ignore[arg-type]


def make(tmp_path: Path, *steps: Step, **changes: object) -> list[str]:
    said: list[str] = []
    build(
        environment(*steps, **changes), tmp_path / "root", tmp_path / "logs" / "a.log", said.append
    )
    return said


def test_carries_out_every_step_and_writes_the_manifest_last(tmp_path: Path) -> None:
    code = f"import os; print('listing', sorted(os.listdir()), os.path.exists({MANIFEST!r}))"
    said = make(tmp_path, python("Look", code), Write("Note", "{packages}/note.txt", "hello"))
    assert said == ["[1/3] Write the engine", "[2/3] Look", "[3/3] Note"]
    manifest = json.loads((tmp_path / "root" / MANIFEST).read_text())
    assert [step["title"] for step in manifest["steps"]] == ["Write the engine", "Look", "Note"]
    assert manifest["backend"] == "llamacpp"
    assert len(manifest["fingerprint"]) == 64
    assert list((tmp_path / "root").glob("lib/python3.*/site-packages/note.txt"))
    log = (tmp_path / "logs" / "a.log").read_text()
    assert "=== [2/3] Look\nlisting ['bin'] False\n=== [3/3] Note\n" in log


def test_a_failing_step_is_named_with_its_cause_and_leaves_nothing(tmp_path: Path) -> None:
    code = "import sys; print('compiling'); print('x.cpp:1: error: no such type'); sys.exit(3)"
    with pytest.raises(EngineError) as caught:
        make(tmp_path, python("Compile", code), python("Never", "open('/nonexistent/x')"))
    message = caught.value.message
    assert "step 2 of 3, 'Compile', failed: x.cpp:1: error: no such type" in message
    assert str(tmp_path / "logs" / "a.log") in message
    assert "compiling" in (tmp_path / "logs" / "a.log").read_text()
    assert not (tmp_path / "root").exists()


def test_a_program_that_is_missing_or_killed_is_a_cause(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no-such-program: No such file"):
        make(tmp_path, Run("Run it", ("no-such-program",)))
    with pytest.raises(EngineError, match="ended by SIGKILL"):
        make(tmp_path, python("Die", "import os; os.kill(os.getpid(), 9)"))


def test_an_index_that_does_not_answer_is_the_cause_and_its_password_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://me:pass-word@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    pip = ("{python}", "-m", "pip", "download", "--no-deps", "no-such-engine==1")
    with pytest.raises(EngineError, match=r"\(the package index could not be reached\)") as caught:
        make(tmp_path, Run("Fetch", pip))
    log = (tmp_path / "logs" / "a.log").read_text()
    assert "127.0.0.1" in log
    assert "pass-word" not in log + caught.value.message


def test_an_optional_step_may_fail(tmp_path: Path) -> None:
    said = make(tmp_path, python("Try", "raise ValueError('no')", optional=True))
    assert said[-1] == "[2/2] Try: left out, ValueError: no"
    manifest = json.loads((tmp_path / "root" / MANIFEST).read_text())
    assert [step["ok"] for step in manifest["steps"]] == [True, False]


def test_a_half_made_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "rubbish").write_text("left by a killed install")
    make(tmp_path)
    assert not (tmp_path / "root" / "rubbish").exists()


def test_nothing_is_written_outside(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="outside the environment"):
        make(tmp_path, Write("Escape", "../outside", "x"))
    assert not (tmp_path / "outside").exists()


def test_what_a_step_leaves_running_is_ended(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
    )
    make(tmp_path, python("Leave a process", code))
    _await_end(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"disk_bytes": 10**18}, "needs 1000000000.0 GB"),
        ({"tools": ("no-such-compiler",)}, "needs no-such-compiler on PATH"),
        ({"newest_python": (3, 10)}, "up to Python 3.10; museorch runs on Python 3."),
    ],
)
def test_needs_are_checked_before_the_start(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        make(tmp_path, **changes)
    assert not (tmp_path / "root").exists()
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_in_the_middle_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    code = f"""
from pathlib import Path
from backends.install import Environment, Run, Write
from orchestrator.environments.engine_build import build
sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
steps = (Write("a", "a", "a"), Run("Sleep", ("{{python}}", "-c", sleep)))
here = Path({str(tmp_path)!r})
build(Environment("vllm", "1", "cpu", steps, "a", 1), here / "root", here / "log", print)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
    )
    try:
        log = tmp_path / "log"
        pid = None
        deadline = time.monotonic() + 30
        while pid is None and time.monotonic() < deadline:
            time.sleep(0.05)
            lines = log.read_text().splitlines() if log.exists() else []
            pid = next((int(line) for line in lines if line.isdigit()), None)
        assert pid is not None
        assert (tmp_path / "root" / "a").exists()
        process.send_signal(number)
        assert process.wait(20) != 0
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "root").exists()
    _await_end(pid)


def test_the_lock_makes_a_second_install_wait(tmp_path: Path) -> None:
    order: list[str] = []
    said: list[str] = []

    def second() -> None:
        with locked(tmp_path / "lock", said.append):
            order.append("second")

    with locked(tmp_path / "lock", said.append):
        thread = threading.Thread(target=second)
        thread.start()
        while not said:
            time.sleep(0.01)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert said == [f"waiting for another museorch that holds {tmp_path / 'lock'}"]


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return  # ended; whoever inherited it has not reaped it yet
        time.sleep(0.05)
    pytest.fail(f"process {pid} still runs")
