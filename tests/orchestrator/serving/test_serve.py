from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from backends import BACKENDS
from backends.base import LaunchPlan
from backends.errors import EngineError, InputError
from orchestrator.serving import ready
from orchestrator.serving.serve import Server, serve
from tests.fakes import PROBE, eventually, fake_plan, gone


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Whatever a test does to an engine, no process of it stays."""
    yield
    assert psutil.Process().children(recursive=True) == []


def up(plan: LaunchPlan, folder: Path, **more: Any) -> AbstractContextManager[Server]:
    settings: dict[str, Any] = {"folder": folder, "probe": PROBE, "model": "muse", "grace_s": 0.5}
    return serve(plan, BACKENDS[plan.backend], **(settings | more))


def fails(plan: LaunchPlan, folder: Path, **more: Any) -> str:
    """The message with which it does not start."""
    with pytest.raises(EngineError) as error, up(plan, folder, **more):
        pytest.fail("it started")
    return error.value.message


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_it_is_ready_and_ends(tmp_path: Path, name: str) -> None:
    said: list[str] = []
    with up(fake_plan(name, "--accept", "1"), tmp_path, on_progress=said.append) as server:
        assert server.exit_reason() is None
        assert server.facts == {"/version": {"version": "fake"}}
        assert "# TYPE" in server.metrics()
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert f"listening on port {server.port}" in server.log.read_text()
    assert gone(server.pid)
    assert said[0] == f"started as process {server.pid}"
    assert said[-1] == "ready"


def test_an_exception_inside_ends_it_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), up(fake_plan(), tmp_path) as server:
        raise RuntimeError("mine")
    assert gone(server.pid)


def test_a_slow_start_is_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    plan = fake_plan("vllm", "--slow-listen", "0.3", "--slow-start", "1.1")
    with up(plan, tmp_path, on_progress=said.append):
        pass
    waits = [text for text in said if text.startswith("waiting for /health")]
    assert any("HTTP 503" in text for text in waits)


def test_who_answers_on_its_port_meanwhile_is_not_taken_for_it(tmp_path: Path) -> None:
    said: list[str] = []
    others: list[HTTPServer] = []

    def take_its_port(server: Server) -> None:
        others.append(HTTPServer(("127.0.0.1", server.port), Healthy))
        threading.Thread(target=others[0].serve_forever).start()

    try:
        plan = fake_plan("vllm", "--slow-listen", "1.0")
        fails(plan, tmp_path, on_progress=said.append, on_start=take_its_port)
    finally:
        others[0].shutdown()
        others[0].server_close()
    assert not [text for text in said if text.startswith("healthy")]


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def test_the_port_asked_for_is_used(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for folder in ("a", "b"):  # twice: a port just left is free
        with up(fake_plan(), tmp_path / folder, port=port) as server:
            assert server.port == port


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=f"port {port} is in use"),
            up(fake_plan(), tmp_path / "arm", port=port),
        ):
            pytest.fail("it started")
    assert not (tmp_path / "arm").exists()


@pytest.mark.parametrize("port", [0, -1, 70000])
def test_a_port_that_is_none(tmp_path: Path, port: int) -> None:
    with pytest.raises(InputError, match="not between"), up(fake_plan(), tmp_path, port=port):
        pytest.fail("it started")


def test_a_failed_start_shows_the_first_cause(tmp_path: Path) -> None:
    lines = ("INFO loading", "ValueError: cause of it all", "RuntimeError: engine core failed")
    flags = [flag for line in lines for flag in ("--log", line)]
    message = fails(fake_plan("vllm", *flags, "--fail-start", "3"), tmp_path)
    assert "vllm: the engine ended before it was ready: exit status 3: " in message
    assert "cause of it all" in message
    assert str(tmp_path / "server.log") in message
    assert "\n" not in message


def test_an_executable_that_is_not_there(tmp_path: Path) -> None:
    plan = replace(fake_plan(), argv=("/no/such/vllm", "--port", "{port}"))
    message = fails(plan, tmp_path)
    assert "cannot be run: /no/such/vllm: No such file or directory" in message


def test_never_healthy(tmp_path: Path) -> None:
    message = fails(fake_plan("vllm", "--slow-start", "99", start_timeout_s=2), tmp_path)
    assert "not healthy after 2 s (/health: HTTP 503)" in message


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--no-tokens",), "its answer holds no token"),
        (("--fail-from", "1"), "HTTP 500: the fake engine was told to fail"),
        (("--hang-from", "1"), "no end after"),
        (("--error-after", "1"), "the fake engine was told to fail"),
    ],
)
def test_healthy_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], why: str
) -> None:
    monkeypatch.setattr(ready, "PATIENCE_S", 0.3)
    message = fails(fake_plan("llamacpp", *flags, start_timeout_s=3), tmp_path)
    assert "healthy, but it does not generate: " in message
    assert why in message


def test_a_refused_probe_is_not_tried_again(tmp_path: Path) -> None:
    plan = replace(fake_plan("vllm", start_timeout_s=60), backend="llamacpp")
    began = time.monotonic()
    assert "does not generate: HTTP 404: no /completion" in fails(plan, tmp_path)
    assert time.monotonic() - began < ready.PATIENCE_S


def test_death_during_the_probe(tmp_path: Path) -> None:
    message = fails(fake_plan("vllm", "--die-after", "1", start_timeout_s=60), tmp_path)
    assert "killed by" in message


def test_a_killed_engine_is_told_with_its_signal(tmp_path: Path) -> None:
    with up(fake_plan(), tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        reason = server.exit_reason(wait_s=5)
        assert reason is not None
        assert "killed by" in reason
        with pytest.raises(EngineError, match="no /metrics: killed by"):
            server.metrics()


def test_an_engine_that_exits_is_told_with_its_cause(tmp_path: Path) -> None:
    with up(fake_plan("vllm", "--log", "ValueError: bad shape"), tmp_path) as server:
        os.kill(server.pid, signal.SIGABRT)
        assert server.exit_reason(wait_s=5) == "killed by SIGABRT: ValueError: bad shape"


def test_an_engine_that_ignores_term_and_its_child_end(tmp_path: Path) -> None:
    told = tmp_path / "child"
    plan = fake_plan("vllm", "--ignore-term", "--grandchild", str(told))
    with up(plan, tmp_path) as server:
        child = int(told.read_text())
        assert not gone(child)
    assert gone(server.pid)
    assert gone(child)


def test_the_children_of_a_killed_engine_end_at_once(tmp_path: Path) -> None:
    told = tmp_path / "child"
    with up(fake_plan("vllm", "--grandchild", str(told)), tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: gone(int(told.read_text())))


def test_a_killed_guard_takes_the_engine_with_it(tmp_path: Path) -> None:
    with up(fake_plan(), tmp_path) as server:
        guard = psutil.Process(server.pid).ppid()
        os.kill(guard, signal.SIGKILL)
        assert eventually(lambda: gone(server.pid))
        assert server.exit_reason(wait_s=5) is not None


PARENT = """
import sys, time
from pathlib import Path
from backends import BACKENDS
from orchestrator.serving.serve import serve
from tests.fakes import PROBE, fake_plan
folder, grace, *flags = sys.argv[1:]
plan = fake_plan("vllm", "--ignore-term", "--grandchild", f"{folder}/child", *flags)
with serve(plan, BACKENDS["vllm"], folder=Path(folder), probe=PROBE, model="muse",
           on_progress=lambda text: print(text, flush=True), grace_s=float(grace)):
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("when", "grace_s", "signals"),
    [
        ("starting", 0.5, [signal.SIGKILL]),
        ("starting", 0.5, [signal.SIGINT]),
        ("ready", 0.5, [signal.SIGKILL]),
        ("ready", 0.5, [signal.SIGTERM]),
        ("ready", 0.5, [signal.SIGHUP]),
        ("ready", 60, [signal.SIGINT, signal.SIGINT]),
    ],
)
def test_nothing_survives_museorch(
    tmp_path: Path, when: str, grace_s: float, signals: list[signal.Signals]
) -> None:
    flags = ("--slow-start", "60") if when == "starting" else ()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(grace_s), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as museorch:
        assert museorch.stdout is not None
        engine = int(museorch.stdout.readline().rpartition(" ")[2])
        while when == "ready" and museorch.stdout.readline() != "ready\n":
            pass
        assert eventually((tmp_path / "child").exists)
        child = int((tmp_path / "child").read_text())
        guard = psutil.Process(engine).ppid()
        assert guard != museorch.pid
        for number in signals:
            museorch.send_signal(number)
            time.sleep(0.2)
        museorch.wait(10)
    assert eventually(lambda: gone(engine) and gone(child) and gone(guard))


def test_a_noisy_engine_does_not_block(tmp_path: Path) -> None:
    with up(fake_plan("vllm", "--noisy", "3000"), tmp_path) as server:
        assert server.log.stat().st_size > 500_000


def test_the_environment_holds_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    fails(replace(fake_plan(env={"OF_THE_PLAN": "yes"}), argv=("env",)), tmp_path)
    printed = (tmp_path / "server.log").read_text().splitlines()
    assert "OF_THE_PLAN=yes" in printed
    assert not [line for line in printed if line.startswith(("HF_TOKEN", "PYTHONPATH"))]


def test_it_runs_in_the_arms_folder(tmp_path: Path) -> None:
    fails(replace(fake_plan(), argv=("pwd",)), tmp_path / "arm")
    assert (tmp_path / "arm" / "server.log").read_text().strip() == str(tmp_path / "arm")


def test_an_earlier_log_is_kept(tmp_path: Path) -> None:
    for word in ("first", "second", "third"):
        fails(replace(fake_plan(), argv=("echo", word)), tmp_path)
    logs = {path.name: path.read_text().strip() for path in tmp_path.glob("*.log")}
    assert logs == {"server.log": "third", "server.1.log": "first", "server.2.log": "second"}
