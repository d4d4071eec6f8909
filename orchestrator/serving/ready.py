"""The wait between launching an engine and trusting it: healthy is not ready, a token is."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx

from backends.base import LaunchPlan, Request
from backends.protocol import Backend
from orchestrator.diagnose import first_cause
from orchestrator.load.client import PhaseContext, run_requests
from orchestrator.load.sample import Sample
from orchestrator.serving import observe

if TYPE_CHECKING:
    from orchestrator.serving.serve import Server

POLL_S = 0.1
PROGRESS_S = 1.0
RETRY_S = 0.5
PATIENCE_S = 20.0
"""How long a healthy engine may go on failing to generate before it is given up."""
LOADING = re.compile(r"HTTP (503|429|425|408)|no connection")
REFUSED = re.compile(r"HTTP 4")


def wait_until_ready(
    server: Server,
    plan: LaunchPlan,
    backend: Backend,
    probe: Request,
    model: str,
    on_progress: Callable[[str], None],
) -> None:
    """Return once the health path said 200 and `probe` brought back a token.

    Raises EngineError when the engine ends, refuses the probe, generates nothing, or takes longer
    than the plan's `start_timeout_s`.
    """
    deadline = time.monotonic() + plan.start_timeout_s
    _wait_for_health(server, plan, deadline, on_progress)
    on_progress("healthy, waiting for its first token")
    patience = time.monotonic() + PATIENCE_S
    while problem := _generate(server, backend, probe, model, deadline):
        _check_alive(server)
        limit = deadline if LOADING.match(problem) else min(deadline, patience)
        refused = REFUSED.match(problem) and not LOADING.match(problem)
        if refused or time.monotonic() >= limit:
            cause = first_cause(server.log)
            log = f"; its log: {cause}" if cause else ""
            raise server.failure(f"healthy, but it does not generate: {problem}{log}")
        time.sleep(RETRY_S)
    _check_alive(server)  # else another server, on the same port, may have answered
    on_progress("ready")


def _wait_for_health(
    server: Server, plan: LaunchPlan, deadline: float, on_progress: Callable[[str], None]
) -> None:
    began = told = time.monotonic()
    on_progress(f"started as process {server.pid}")
    answer = "not listening"
    while True:
        _check_alive(server)
        try:
            server.get(plan.health_path)
            if observe.server(server.pid, server.port)["listens"]:
                return
            # It took the port while the engine was loading, which will fail to bind it.
            answer = "another process answers"
        except httpx.HTTPStatusError as error:
            answer = f"HTTP {error.response.status_code}"
        except httpx.ConnectError:
            answer = "not listening"
        except httpx.HTTPError as error:
            answer = str(error) or type(error).__name__
        now = time.monotonic()
        if now >= deadline:
            raise server.failure(
                f"not healthy after {plan.start_timeout_s:g} s ({plan.health_path}: {answer})"
            )
        if now - told >= PROGRESS_S:
            told = now
            on_progress(f"waiting for {plan.health_path}, {now - began:.0f} s: {answer}")
        time.sleep(POLL_S)


def _check_alive(server: Server) -> None:
    if (reason := server.exit_reason()) is not None:
        raise server.failure(f"the engine ended before it was ready: {reason}")


def _generate(
    server: Server, backend: Backend, probe: Request, model: str, deadline: float
) -> str | None:
    """What keeps the engine from generating; None when it does."""
    sample = asyncio.run(_probe(server, backend, probe, model, deadline - time.monotonic()))
    if sample is None:
        return "it ended"
    if sample.error is not None:
        return sample.error
    return None if sample.token_ids else "its answer holds no token"


async def _probe(
    server: Server, backend: Backend, probe: Request, model: str, timeout_s: float
) -> Sample | None:
    """The probe's sample; None when the engine ended before it was complete."""
    running = asyncio.create_task(
        run_requests(
            server.url,
            backend,
            model,
            [probe],
            concurrency=1,
            context=PhaseContext("probe", "probe", 0),
            on_sample=lambda _: None,
            should_stop=lambda: False,
            timeout_s=max(1.0, timeout_s),
            headers=server.headers,
        )
    )
    while not (await asyncio.wait({running}, timeout=POLL_S))[0]:
        if server.exit_reason() is not None:
            running.cancel()
            await asyncio.wait({running})
            return None
    return running.result()[0]
