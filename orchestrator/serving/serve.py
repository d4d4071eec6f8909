"""One engine, from its launch to the end of its last process: a context manager.

    started ──▶ healthy (its health path says 200) ──▶ ready (it generated a token) ──▶ stopped
       └───────────┴── it ended, or took too long: EngineError with the first cause in its log

The engine runs below `orchestrator.serving.guard`, which ends it even when museorch is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from backends.base import LaunchPlan, Request
from backends.errors import EngineError
from backends.protocol import Backend
from orchestrator.diagnose import first_cause
from orchestrator.serving import guard, launch
from orchestrator.serving.ready import wait_until_ready

GRACE_S = 10.0
"""Between TERM and KILL."""
HTTP_TIMEOUT_S = 10.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Server:
    """A launched engine. `pid` is the engine's own process."""

    name: str
    url: str
    port: int
    pid: int
    log: Path
    _guard: subprocess.Popen[bytes] = field(repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the plan's fact paths answered; one that did not answer is absent."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request; they may hold an API key."""

    @property
    def guard_pid(self) -> int:
        """The process whose end, or SIGTERM, ends the engine."""
        return self._guard.pid

    def ended(self, wait_s: float = 0.0) -> bool:
        """Whether it has ended, or does within `wait_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(wait_s)
        return self._guard.poll() is not None

    def exit_reason(self, wait_s: float = 0.0) -> str | None:
        """None while it runs, else how it ended and the first cause in its log, on one line.

        A client sees a broken connection a moment before the process is gone; `wait_s` is for that.
        """
        if not self.ended(wait_s):
            return None
        status = self._guard.returncode
        ended = _ended(status)
        if cause := first_cause(self.log):
            return f"{ended}: {cause}"
        # Of some signals it can still say what usually sends them.
        return first_cause(self.log, status) or ended

    def get(self, path: str) -> httpx.Response:
        """Raises httpx.HTTPError, also for a status other than 2xx."""
        # No proxy between museorch and its child, and no certificates for plain HTTP.
        response = httpx.get(
            self.url + path,
            headers=dict(self.headers),
            timeout=HTTP_TIMEOUT_S,
            trust_env=False,
            verify=False,
        )
        return response.raise_for_status()

    def metrics(self) -> str:
        """Its /metrics page. EngineError when it does not give it."""
        try:
            return self.get("/metrics").text
        except httpx.HTTPError as error:
            reason = self.exit_reason(wait_s=1.0) or str(error) or type(error).__name__
            raise self.failure(f"no /metrics: {reason}") from None

    def failure(self, what: str) -> EngineError:
        return EngineError(f"{what.rstrip('.')}.", where=self.name, fix=f"Its log: {self.log}")


@contextmanager
def serve(
    plan: LaunchPlan,
    backend: Backend,
    *,
    folder: Path,
    probe: Request,
    model: str,
    port: int | None = None,
    overlay_paths: Mapping[str, str] = NOTHING,
    on_progress: Callable[[str], None] | None = None,
    on_start: Callable[[Server], None] | None = None,
    secret_env: Mapping[str, str] = NOTHING,
    headers: Mapping[str, str] = NOTHING,
    detach: bool = False,
    grace_s: float = GRACE_S,
) -> Iterator[Server]:
    """Start `plan`, yield once it generated tokens for `probe`, end all its processes afterwards.

    The log goes to `folder`/server.log. `on_start` is told of the server before it is ready.
    `secret_env` is the engine's alone. With `detach` the server goes on running when the block is
    left without an exception, until its guard gets SIGTERM. Raises InputError when `port` cannot be
    used, EngineError when the engine does not come up.
    """
    host = launch.host(plan.argv)
    port = launch.usable_port(host, port)
    argv = launch.argv(plan.argv, port, overlay_paths)
    log = launch.fresh_log(folder)
    # Isolated and by path: neither the engine's modules nor the user's can get in the guard's way.
    command = [sys.executable, "-I", "-S", guard.__file__, "--log", str(log)]
    process = subprocess.Popen(
        [*command, "--grace", str(grace_s), *(["--detach"] if detach else []), "--", *argv],
        cwd=folder,
        env={**launch.environment(os.environ, plan.env, argv[0]), **secret_env},
        stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A group, so that Ctrl-C is museorch's alone, but no session: Linux shares the CPU between
        # sessions first, and on a busy machine the client would get less of it than the engine.
        process_group=None if detach else 0,
        start_new_session=detach,
    )
    pid: int | None = None
    leave_running = False
    try:
        pid = _engine_pid(process, plan.backend)
        url = launch.url(host, port)
        server = Server(plan.backend, url, port, pid, log, process, headers=headers)
        if on_start is not None:
            on_start(server)
        wait_until_ready(server, plan, backend, probe, model, on_progress or _silent)
        yield replace(server, facts=_facts(server, plan.fact_paths))
        leave_running = detach
    finally:
        if not leave_running:
            _stop(process, pid, grace_s)


def _engine_pid(process: subprocess.Popen[bytes], name: str) -> int:
    """From the guard's first line."""
    assert process.stdout is not None
    with process.stdout as lines:
        word, _, rest = lines.readline().decode(errors="replace").strip().partition(" ")
    if word != "pid":
        raise EngineError(
            f"the engine cannot be run: {rest or 'its guard did not start'}.",
            where=name,
            fix="Install it with `museorch engines install`, or name an executable that exists.",
        )
    return int(rest)


def _stop(process: subprocess.Popen[bytes], pid: int | None, grace_s: float) -> None:
    if process.stdin is None:
        process.terminate()
    else:
        # Once the pipe is closed the guard ends everything, whatever happens to this process.
        process.stdin.close()
    limit = grace_s + guard.SWEEP_LIMIT_S + 5.0
    try:
        process.wait(limit)
    except KeyboardInterrupt:
        process.terminate()  # asked a second time, the guard grants no more grace
        process.wait(limit)
        raise
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode < 0 and pid is not None:
        # The guard was killed, and the engine with it by the kernel, but not its children.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _ended(status: int) -> str:
    """`exit status 1`, `killed by SIGSEGV`. `status` as a shell gives it, or -N for signal N."""
    number = -status if status < 0 else status - 128
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"exit status {status}"


def _facts(server: Server, paths: tuple[str, ...]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for path in paths:
        with contextlib.suppress(httpx.HTTPError):
            response = server.get(path)
            try:
                facts[path] = response.json()
            except ValueError:
                facts[path] = response.text
    return facts


def _silent(text: str) -> None:
    del text
