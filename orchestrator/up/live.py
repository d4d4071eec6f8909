"""What servers do now, from two looks at their /metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from backends import BACKENDS
from backends.errors import MuseorchError
from orchestrator.diagnose import first_cause
from orchestrator.measuring.counters import Counters, scrape
from orchestrator.up.state import Standing, State

TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Reading:
    """One look."""

    at: float
    """Monotonic seconds."""
    counters: Counters
    generated: float | None
    running: float | None
    waiting: float | None
    requests: float | None
    """Finished ones, where acceptance follows from them."""
    rate: float | None = None
    """Tokens a second as the engine tells it."""

    def length(self, before: Reading | None = None) -> float | None:
        """Acceptance length, pooled, since `before` or the server's start; None if not told.

        Where accepted drafts are not counted, every step gives the tokens that it accepts and one
        more, and the first token of a request comes of none.
        """
        steps = _less(self.counters.steps, before.counters.steps if before else 0)
        accepted = _less(self.counters.accepted, before.counters.accepted if before else 0)
        if steps is None or steps <= 0:
            return None
        if accepted is not None:
            return 1 + accepted / steps
        tokens = _less(self.generated, before.generated if before else 0)
        requests = _less(self.requests, before.requests if before else 0)
        return (tokens - requests) / steps if tokens is not None and requests is not None else None


@dataclass(frozen=True)
class Live:
    """None is unknown; `reason` says why where nothing could be read."""

    standing: Standing
    reason: str | None = None
    output_tok_s: float | None = None
    """Over the last interval."""
    generated_tokens: int | None = None
    running: int | None = None
    waiting: int | None = None
    acceptance_length: float | None = None
    """Since the start."""
    recent_acceptance_length: float | None = None
    """Over the last interval; None when nothing was drafted in it."""
    marginal_acceptance: tuple[float, ...] | None = None
    """By position, since the start."""
    steps: int | None = None


def read(state: State, key: str | None) -> Reading | str:
    """One look, or why there is none."""
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    backend = BACKENDS[state.backend]
    names = backend.live
    try:
        # No proxy between museorch and a server of this machine.
        with httpx.Client(
            base_url=state.url, headers=headers, timeout=TIMEOUT_S, trust_env=False
        ) as client:
            answer = client.get("/metrics")
            if answer.status_code in (401, 403):
                why = "need the API key" if key is None else "refuse this API key"
                return f"its metrics {why}: set MUSEORCH_API_KEY"
            if not answer.is_success:
                return f"no /metrics: HTTP {answer.status_code}"
            text = answer.text
            under_way = _under_way(client, names.slots) if names.slots is not None else 0
        counters = scrape(text, backend.counters)
    except httpx.HTTPError as error:
        return f"no /metrics: {str(error) or type(error).__name__}"
    except MuseorchError as error:
        return error.message
    wanted = [names.generated, names.running, names.waiting, names.requests, names.rate]
    found = _sums(text, wanted)
    counted = found.get(names.generated)
    return Reading(
        time.monotonic(),
        counters,
        counted + under_way if counted is not None else None,
        found.get(names.running),
        found.get(names.waiting),
        found.get(names.requests) if names.requests is not None else None,
        found.get(names.rate) if names.rate is not None else None,
    )


def look(states: Sequence[State], key: str | None, interval_s: float) -> list[Live]:
    """Two looks at each server, `interval_s` apart."""
    first = [_read_if_running(state, key) for state in states]
    if any(isinstance(reading, Reading) for reading in first):
        time.sleep(interval_s)
    return [
        between(state, before, _read_if_running(state, key))
        for state, before in zip(states, first, strict=True)
    ]


def between(state: State, before: Reading | str | None, now: Reading | str | None) -> Live:
    """What two looks say; None for one that was not taken because the server does not run."""
    standing = state.standing
    if not isinstance(now, Reading):
        reason = now if now is not None else _why_not(state, standing)
        return Live(standing, reason)
    rate = recent = None
    if isinstance(before, Reading):
        rate = _rate(before, now)
        recent = now.length(before)
    steps, positions = now.counters.steps, now.counters.per_position
    return Live(
        standing,
        output_tok_s=rate,
        generated_tokens=_whole(now.generated),
        running=_whole(now.running),
        waiting=_whole(now.waiting),
        acceptance_length=now.length(),
        recent_acceptance_length=recent,
        marginal_acceptance=tuple(n / steps for n in positions) if positions and steps else None,
        steps=steps,
    )


def public(state: State, live: Live | None = None) -> dict[str, Any]:
    """A server as `--json` shows it."""
    process = state.engine if state.engine is not None else state.guard
    data: dict[str, Any] = {
        "name": state.name,
        "state": state.standing,
        "model": state.model,
        "url": f"{state.url}/v1",
        "backend": state.backend,
        "engine_version": state.engine_version,
        "device": state.device,
        "quantisation": state.quantisation,
        "speculation": state.speculation,
        "draft_tokens": state.draft_tokens,
        "slots": state.slots,
        "context_length": state.context_length,
        "host": state.host,
        "port": state.port,
        "needs_key": state.needs_key,
        "detached": state.detached,
        "pid": process.pid if process is not None else None,
        "started": state.started,
        "log": str(state.log),
    }
    if live is not None:
        facts: Mapping[str, Any] = live.__dict__
        data |= {name: value for name, value in facts.items() if name != "standing"}
        data["state"] = live.standing
    return data


def _read_if_running(state: State, key: str | None) -> Reading | str | None:
    return read(state, key) if state.standing == "running" else None


def _why_not(state: State, standing: Standing) -> str:
    if standing == "starting" and not state.owner.alive:
        return f"the museorch that started it is gone; end it: museorch down {state.name}"
    if standing != "ended":
        return f"it is {standing}"
    return (first_cause(state.log) if state.log.is_file() else None) or "its process is gone"


def _sums(text: str, names: Sequence[str | None]) -> dict[str, float]:
    """Of the samples with these names, over every label."""
    from prometheus_client.parser import text_string_to_metric_families

    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


def _under_way(client: httpx.Client, path: str) -> int:
    """Tokens of requests that have not ended; 0 where the endpoint is off or tells otherwise."""
    answer = client.get(path)
    try:
        slots = answer.json() if answer.is_success else []
        busy = [slot for slot in slots if slot["is_processing"]]
        return sum(int(slot["next_token"][0]["n_decoded"]) for slot in busy)
    except (ValueError, KeyError, TypeError, IndexError):
        return 0


def _rate(before: Reading, now: Reading) -> float | None:
    if now.rate:
        return now.rate
    if before.generated is None or now.generated is None or now.at <= before.at:
        return None
    return max(0.0, now.generated - before.generated) / (now.at - before.at)


def _less(now: float | None, before: float | None) -> float | None:
    """A series that was not there before counts from 0."""
    return None if now is None else now - (before if before is not None else 0)


def _whole(value: float | None) -> int | None:
    return round(value) if value is not None else None
