"""How near two tokens were to each other where the greedy outputs of two arms part.

Asked of a server that is up anyway, after its timed phases: an arm that ends looks at the arms that
ended before it. The first token after a prompt is never drafted, so a server with a drafter answers
with the target's own probabilities.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from backends.base import Request
from backends.protocol import Backend
from orchestrator.comparing.audit import Margin, first_divergence
from orchestrator.inputs.expand import Arm
from orchestrator.load import sample
from orchestrator.load.sample import Sample, paired
from orchestrator.load.stream import events
from orchestrator.rundir import BOOKEND, RunDirectory, read_json, write_json
from orchestrator.serving.serve import Server

TOP = 20
"""Likeliest tokens asked for; vLLM gives no more unless told to."""
MOST = 40
"""Places asked for at the end of an arm."""
TIMEOUT_S = 60.0
FILE = "margins.json"


@dataclass(frozen=True)
class Place:
    """A prompt, and what both outputs have in common before they part."""

    prompt: str
    prefix: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """What the server of an arm told."""

    arm: str
    top: dict[Place, dict[int, float]]
    """Log-probabilities of the likeliest tokens."""
    reason: str | None
    """Why there are places without any."""

    def margin(self, place: Place, a: int, b: int) -> Margin | None:
        """None for a place that was not asked for."""
        top = self.top.get(place)
        if top is None:
            return None
        absent = [token for token in (a, b) if token not in top]
        if absent:
            return Margin(None, self.arm, f"token {absent[0]} is not among the {TOP} likeliest")
        return Margin(top[a] - top[b], self.arm, None)


def earlier(run: RunDirectory, arm: Arm, arms: Sequence[Arm], repeat: int) -> list[Path]:
    """Folders of turns that ended and that the greedy audit compares with this one.

    Those on the same engine and weights come first: there a difference wants an explanation.
    """
    if arm.target.dummy:
        found = []
    elif repeat == BOOKEND:
        found = [arm]
    elif repeat == 1 and arm.simulated is None:
        found = [
            other
            for other in arms
            if other is not arm
            and other.simulated is None
            and (other.backend == arm.backend or other.speculation == arm.speculation)
        ]
    else:
        found = []
    here = (arm.backend, arm.target.quantisation)
    found.sort(key=lambda one: (one.backend, one.target.quantisation) != here)
    folders = [run.turn(one.id, 1) for one in found]
    return [folder for folder in folders if (folder / "status.json").exists()]


def ask(
    folder: Path,
    earlier: Sequence[Path],
    modes: Collection[str],
    requests: Sequence[Request],
    server: Server,
    backend: Backend,
    model: str,
) -> None:
    """Write `folder`/margins.json: of the places where this arm's outputs leave an earlier arm's.

    Never fails the arm: what could not be had is a reason in that file.
    """
    mine = _samples(folder)
    places = list(dict.fromkeys(p for path in earlier for p in _places(mine, path, modes)))
    by_prompt = {request.id: request for request in requests}
    reason = f"more than {MOST} places" if len(places) > MOST else None
    told: list[dict[str, object]] = []
    for place in places[:MOST]:
        request = by_prompt[place.prompt]
        ids = (*request.prompt_ids, *place.prefix)
        request = replace(request, prompt_ids=ids, max_tokens=1, top_tokens=TOP)
        top = _likeliest(server, backend, request, model)
        if isinstance(top, str):
            reason = top
            break
        told.append({"prompt": place.prompt, "prefix": place.prefix, "top": list(top.items())})
    write_json(folder / FILE, {"told": told, "reason": reason})


def _places(mine: Sequence[Sample], path: Path, modes: Collection[str]) -> Iterator[Place]:
    greedy = [s for s in mine if s.mode in modes and s.error is None]
    theirs = [s for s in _samples(path) if s.error is None]
    for mode, concurrency in dict.fromkeys((s.mode, s.concurrency) for s in greedy):
        here, there = (
            [s for s in samples if (s.mode, s.concurrency) == (mode, concurrency)]
            for samples in (greedy, theirs)
        )
        for one, two in paired(here, there):
            at = first_divergence(one.token_ids, two.token_ids)
            # Where one of them had ended there are no two tokens to weigh.
            if at is not None and at < min(len(one.token_ids), len(two.token_ids)):
                yield Place(one.prompt_id, one.token_ids[:at])


def _samples(folder: Path) -> list[Sample]:
    path = folder / "samples.jsonl"
    return sample.read(path) if path.exists() else []


def _likeliest(
    server: Server, backend: Backend, request: Request, model: str
) -> dict[int, float] | str:
    """Log-probabilities by token, or why there are none."""
    call = backend.call(request, model)
    try:
        answer = httpx.post(
            server.url + call.path,
            json=dict(call.body),
            headers=dict(server.headers),
            timeout=TIMEOUT_S,
            trust_env=False,
            verify=False,
        )
        if answer.status_code != httpx.codes.OK:
            return f"HTTP {answer.status_code}: {answer.text[:200]}"
        for _, data in events([(0, answer.content)]):
            chunk = backend.chunk(data)
            if chunk.error is not None:
                return chunk.error
            if chunk.top:
                return dict(chunk.top)
    except httpx.HTTPError as error:
        return f"no answer: {error or type(error).__name__}"
    except (ValueError, RecursionError) as error:
        return f"answer not understood: {error}"
    return "the server tells no probabilities"


def read(folder: Path, arm: str) -> Asked | None:
    """None for a turn that was not asked."""
    if not (folder / FILE).exists():
        return None
    found = read_json(folder / FILE)
    top = {
        Place(row["prompt"], tuple(row["prefix"])): {int(token): p for token, p in row["top"]}
        for row in found["told"]
    }
    return Asked(arm, top, found["reason"])


def margin(
    asked: Sequence[Asked | None], prompt: str, prefix: Sequence[int], a: int | None, b: int | None
) -> Margin:
    """By the first of `asked` that knows the place."""
    if a is None or b is None:
        return Margin(None, None, "one of both outputs had ended")
    known = [one for one in asked if one is not None]
    for one in known:
        found = one.margin(Place(prompt, tuple(prefix)), a, b)
        if found is not None:
            return found
    reasons = [f"{one.arm}: {one.reason}" for one in known if one.reason is not None]
    return Margin(None, None, reasons[0] if reasons else "not asked for in this run")
