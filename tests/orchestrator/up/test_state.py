from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backends.errors import EngineError, InputError
from orchestrator.up import state as book
from orchestrator.up import stop
from orchestrator.up.choice import Options
from orchestrator.up.process import Process, end, kill, of_group, process
from orchestrator.up.state import State


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path))


def state(name: str = "one", **changes: object) -> State:
    first = State(
        name=name,
        phase="ready",
        owner=process(os.getpid()),
        options=Options(model="tiny-muse"),
        backend="llamacpp",
        engine_version="0.3.36",
        model="tiny-muse",
        speculation="dflash",
        draft_tokens=15,
        quantisation="bf16",
        device="cpu",
        slots=4,
        context_length=4096,
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        started="2026-11-30T00:00:00Z",
        needs_key=False,
        detached=True,
    )
    return replace(first, **changes)  # type: ignore[arg-type]


def test_it_comes_back_as_it_was_and_is_private() -> None:
    one = state(guard=process(os.getpid()))
    book.write(one)
    assert book.find("one") == one
    assert book.everyone() == [one]
    assert stat.S_IMODE((one.folder / "state.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(one.folder.stat().st_mode) == 0o700


def test_a_pid_given_to_another_process_is_not_taken_for_the_server() -> None:
    """As after a reboot: the pid lives, but it was started at another time."""
    recycled = Process(os.getpid(), "another-boot:17")
    old = state(guard=recycled)
    assert old.standing == "ended"
    book.write(old)
    assert stop.down(old) is False, "and this process goes on"
    assert book.everyone() == []


def test_a_server_is_ended_where_nothing_can_be_written() -> None:
    """A limit on the size of files stands for a full disk, which its log may have filled."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        one = state(guard=process(child.pid))
        book.write(one)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            assert stop.down(one)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert child.wait(5) != 0
    assert book.everyone() == []


def test_an_ended_server_gives_its_name_and_port_back() -> None:
    book.write(state(guard=Process(2**22 + 1, "x")))
    with book.claim("one") as taken:
        assert taken == set()
    assert book.everyone() == []


@pytest.mark.parametrize("way", ["down", "claim"])
def test_children_of_a_killed_engine_are_ended(way: str) -> None:
    """As vLLM's, which outlive a guard and an engine that got SIGKILL."""
    one = state(guard=Process(2**22 + 1, "x"))
    book.write(one)
    engine = subprocess.Popen(["sh", "-c", "sleep 60 & exit"], cwd=one.folder, process_group=0)
    engine.wait()
    book.write(replace(one, engine=Process(engine.pid, "x")))
    (child,) = of_group(engine.pid, one.folder)
    if way == "down":
        assert not stop.down(book.find("one"))
    else:
        with book.claim("one"):
            pass
    assert end(child, 5.0)
    assert not one.folder.exists()


def test_who_made_way_does_not_remove_the_next_of_its_name() -> None:
    """As when a server is restarted while the first `up` is still leaving."""
    first, second = state(owner=Process(2**22 + 1, "x")), state()
    book.write(second)
    book.drop(first)
    assert book.everyone() == [second]
    book.drop(second)
    assert book.everyone() == []


def test_a_running_one_keeps_them() -> None:
    book.write(state(guard=process(os.getpid())))
    with (
        pytest.raises(InputError, match="it is running at"),
        book.claim("one"),
    ):
        pytest.fail("claimed")
    with book.claim("two") as taken:
        assert taken == {8000}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "owner": 3}'])
def test_a_damaged_file_is_named(text: str) -> None:
    one = state()
    book.write(one)
    (one.folder / "state.json").write_text(text)
    with pytest.raises(EngineError, match="state file is damaged"):
        book.find("one")
    with pytest.raises(EngineError, match="state file is damaged"), book.claim("one"):
        pytest.fail("it may still run, and would be forgotten")
    assert book.everyone() == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 101])
def test_a_name_stays_in_its_folder(name: str) -> None:
    with pytest.raises(InputError, match="is no name"):
        book.find(name)


def test_end_waits_and_kill_does_not_ask() -> None:
    asleep = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{asleep}; time.sleep(60)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        running = process(child.pid)
        assert running.alive
        assert not end(running, 0.2)
        kill(running)
        assert end(running, 5.0), "what is left of it does not count as alive"
