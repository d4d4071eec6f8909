"""One run of one client against the mock: what it told, what was true, what it cost."""

from __future__ import annotations

import ctypes
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.client.mock import Rung, Scenario
from benchmarks.client.peers import ROOT, Client, Load
from benchmarks.client.truth import Told, lateness_ms, of_mock, told
from orchestrator.environments.engines import cache_root

CLIENT_CORE = 0
MOCK_CORE = 1
MAX_TOKENS = 4096
"""What every client asks for; how many it gets, the mock's rung says."""
TTFT_S = 0.05
TIMEOUT_S = 180
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Run:
    told: list[Told] | str
    """One for each rung, or why there are none."""
    truth: list[Told]
    cpu_s: float
    """User and system time of the client with all its processes, start-up included."""
    user_s: float
    """The user part of it; the rest is the kernel's."""
    wall_s: float
    late_ms: tuple[float, float]
    """How late the mock's writes were: 99th percentile, largest."""
    command: str

    @property
    def tokens(self) -> int:
        return sum(rung.tokens for rung in self.truth)


@contextmanager
def mock() -> Iterator[str]:
    """The URL of a mock on its own core."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.client.mock", "--core", str(MOCK_CORE)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def drive(url: str, client: Client, concurrency: int, rungs: Sequence[Rung]) -> Run:
    """Run `client` to its end with `concurrency` streams over all `rungs`."""
    scenario = Scenario(tuple(rungs), TTFT_S, MAX_TOKENS)
    sizes = tuple(rung.requests for rung in rungs)
    with tempfile.TemporaryDirectory() as folder, httpx.Client(trust_env=False) as http:
        http.put(f"{url}/mock/scenario", content=scenario.to_json(), timeout=60).raise_for_status()
        load = Load(url, concurrency, sum(sizes), MAX_TOKENS, sizes, Path(folder) / "out")
        load.folder.mkdir()
        argv = client.argv(load)

        def plain(text: str) -> str:
            """Without what is this machine's or this run's own."""
            names = {url: "URL", str(load.folder): "DIR", str(cache_root()): "$MUSEORCH_HOME"}
            for name, word in {**names, f"{ROOT}/": ""}.items():
                text = text.replace(name, word)
            return text

        home = cache_root() / "bench" / "home"
        home.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "HOME": str(home), **client.env}
        began = time.monotonic()
        user_s, system_s, problem = _timed(argv, env, Path(folder) / "output.txt")
        wall_s = time.monotonic() - began
        log = http.get(f"{url}/mock/log", timeout=60).json()
        truth = of_mock(log, [rung.per_chunk for rung in rungs])
        return Run(
            told=plain(problem) if problem is not None else _read(client, load),
            truth=[told(rung, client.formula, concurrency) for rung in truth if rung],
            cpu_s=user_s + system_s,
            user_s=user_s,
            wall_s=wall_s,
            late_ms=lateness_ms(log) if log else (0.0, 0.0),
            command=plain(shlex.join(argv)),
        )


def _read(client: Client, load: Load) -> list[Told] | str:
    try:
        return client.read(load)
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        return f"its results cannot be read: {type(error).__name__}: {error}"


def _timed(
    argv: Sequence[str], env: dict[str, str], output: Path
) -> tuple[float, float, str | None]:
    """User and system seconds of the process and all below it, and why it failed if it did.

    Processes it leaves behind become children of this one, so that their time is told too.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    problem = None
    with output.open("w+b") as file:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {CLIENT_CORE}),
        )
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status, problem = 0, f"no end after {TIMEOUT_S} s"
        finally:
            _end(process)
        if status:
            file.seek(0)
            said = file.read().decode(errors="replace").strip().splitlines() or ["nothing"]
            problem = f"exit status {status}: {said[-1][:300]}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, problem


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of its session, and take every child of it in."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-process.pid, 0)
