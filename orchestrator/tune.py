"""The best K of an arm: predicted from its acceptance by position and the cost of a step, measured.

A few K are measured. Between two of them tau follows the marginals of the larger one, 1 + their
sum below K, and the time of a step is interpolated. Marginals are shares of steps, and at a smaller
K easy text takes more steps, so they alone would give too small a tau: what they miss at the
smaller K is made up for in proportion. The rate is tau / t_step; its maximum is then measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.errors import EngineError, InputError
from orchestrator import run as flow
from orchestrator.expand import Arm
from orchestrator.plan import plan_arm
from orchestrator.progress import Progress
from orchestrator.result import build
from orchestrator.run import Job
from orchestrator.rundir import RunDirectory, write_json

SCHEMA = 1


@dataclass(frozen=True)
class Probe:
    """What one measured K showed."""

    step_ms: float
    marginal: tuple[float, ...]
    """Acceptance of positions 0 to K - 1."""


@dataclass(frozen=True)
class Point:
    """What is expected of one K."""

    draft_tokens: int
    acceptance_length: float
    step_ms: float
    measured: bool
    """False: interpolated between the K next to it."""
    tok_s: float


@dataclass(frozen=True)
class Tuned:
    """The curve of one phase, and what came of its best K."""

    mode: str
    concurrency: int
    plain_tok_s: float | None
    """Of the recipe's arm without a drafter on the same engine and weights, where it has one."""
    curve: tuple[Point, ...]
    best: int
    predicted_tok_s: float
    measured_tok_s: float | None
    against: int
    """The largest K, which the best one is compared with."""
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    reason: str | None


def predict(measured: Mapping[int, Probe]) -> tuple[Point, ...]:
    """Every K from the smallest to the largest that was measured."""
    ks = sorted(measured)
    points = []
    for k in range(ks[0], ks[-1] + 1):
        below, above = max(m for m in ks if m <= k), min(m for m in ks if m >= k)
        shape = measured[above].marginal
        missed = _length(measured[below].marginal, below) / _length(shape, below)
        tau = _length(shape, k) * float(np.interp(k, [below, above], [missed, 1.0]))
        step = float(np.interp(k, ks, [measured[m].step_ms for m in ks]))
        points.append(Point(k, tau, step, k in measured, 1000 * tau / step))
    return tuple(points)


def _length(marginal: Sequence[float], k: int) -> float:
    return 1 + sum(marginal[:k])


def probes(largest: int) -> list[int]:
    """Three K whose steps are measured: both ends and about the middle, where cost may bend."""
    return sorted({1, (largest + 1) // 2, largest})


def tune(job: Job, arm_id: str, ks: Sequence[int] | None, out: Path, progress: Progress) -> Any:
    """Measure the curve in `out`/curve, then the best K in `out`/best. Returns tune.json's data."""
    arm = _arm(job, arm_id)
    assert arm.draft_tokens is not None, "_arm has checked"
    chosen = sorted({*ks, arm.draft_tokens}) if ks else probes(arm.draft_tokens)
    if chosen[-1] > arm.draft_tokens:
        raise InputError(f"K {chosen[-1]} is above the arm's {arm.draft_tokens}.", where=arm_id)
    plain = next((one for one in job.arms if _is_plain(one, arm)), None)
    first = _run(job, arm, chosen, out / "curve", progress, plain)
    curves = {key: _curve(first, key) for key in _phases(first)}
    best = {key: max(curve, key=lambda p: p.tok_s) for key, curve in curves.items()}
    missing = sorted({p.draft_tokens for p in best.values()} - set(chosen))
    second = first
    if missing:
        second = _run(job, arm, [*missing, chosen[-1]], out / "best", progress)
    tuned = []
    for key, curve in curves.items():
        source = second if best[key].draft_tokens in missing else first
        rate = _rate(first, plain.id, key) if plain is not None else None
        tuned.append(_verified(source, arm, key, curve, best[key], chosen[-1], rate))
    data = {
        "schema": SCHEMA,
        "arm": arm_id,
        "runs": ["curve", "best"] if missing else ["curve"],
        "phases": [asdict(one) for one in tuned],
    }
    write_json(out / "tune.json", data)
    return data


def _arm(job: Job, arm_id: str) -> Arm:
    """With the K that its engine uses at most."""
    item = next((item for item in job.planned if item.arm.id == arm_id), None)
    if item is None or item.plan.draft_tokens is None:
        known = ", ".join(arm.id for arm in job.arms if arm.drafter is not None)
        raise InputError(
            f'no arm with a drafter is called "{arm_id}".',
            where=str(job.path),
            fix=f"Arms with one: {known}." if known else None,
        )
    if item.arm.simulated is not None:
        raise InputError("its acceptance is simulated, so there is nothing to tune.", where=arm_id)
    return replace(item.arm, draft_tokens=item.plan.draft_tokens)


def _name(arm: Arm, k: int) -> str:
    return f"{arm.id}-k{k}"


def _is_plain(one: Arm, arm: Arm) -> bool:
    same = (one.backend, one.target, one.engine_args) == (arm.backend, arm.target, arm.engine_args)
    return same and one.drafter is None


def _run(
    job: Job,
    arm: Arm,
    ks: Sequence[int],
    out: Path,
    progress: Progress,
    plain: Arm | None = None,
) -> dict[str, Any]:
    """The arm at each K, the largest first and again at the end, and the plain arm if given."""
    order = sorted(ks, reverse=True)
    arms = tuple(replace(arm, id=_name(arm, k), draft_tokens=k) for k in order)
    arms += (plain,) if plain is not None else ()
    changes = {"reference": arms[0].id, "bookend": True}
    recipe = job.recipe.model_copy(update={"order": job.recipe.order.model_copy(update=changes)})
    planned = tuple(plan_arm(recipe, one) for one in arms)
    job = replace(job, recipe=recipe, arms=arms, planned=planned)
    flow.require_runnable(job)
    run = flow.create(job, out)
    flow.execute(job, run, progress)
    result = build(RunDirectory.open(out))
    write_json(run.result_file, result)
    for one in result["arms"]:
        if one["status"] != "ok":
            raise EngineError(f"{one['status']}: {one['reason']}", where=one["id"])
    return result


Key = tuple[str, int]


def _phases(result: Mapping[str, Any]) -> list[Key]:
    return [(mode["mode"], mode["concurrency"]) for mode in result["arms"][0]["modes"]]


def _rate(result: Mapping[str, Any], arm_id: str, key: Key) -> float | None:
    value: float | None = _mode(result, arm_id, key)["metrics"]["decode_tok_s"]["value"]
    return value


def _mode(result: Mapping[str, Any], arm_id: str, key: Key) -> Mapping[str, Any]:
    found = next(one for one in result["arms"] if one["id"] == arm_id)
    mode: Mapping[str, Any] = next(
        m for m in found["modes"] if (m["mode"], m["concurrency"]) == key
    )
    if mode["problems"]:
        raise EngineError(f"{mode['mode']}: {'; '.join(mode['problems'])}", where=found["id"])
    return mode


def _curve(result: Mapping[str, Any], key: Key) -> tuple[Point, ...]:
    measured: dict[int, Probe] = {}
    for one in result["arms"]:
        if one["draft_tokens"] is None:
            continue
        mode = _mode(result, one["id"], key)
        step, told = mode["metrics"]["step_time_ms"], mode["speculation"]
        if step["value"] is None:
            raise EngineError(f"no step time: {step['reason']}", where=one["id"])
        if told is None or told["marginal_acceptance"] is None:
            raise EngineError("the engine tells no acceptance by position.", where=one["id"])
        measured[one["draft_tokens"]] = Probe(step["value"], tuple(told["marginal_acceptance"]))
    return predict(measured)


def _verified(
    result: Mapping[str, Any],
    arm: Arm,
    key: Key,
    curve: tuple[Point, ...],
    best: Point,
    largest: int,
    plain: float | None,
) -> Tuned:
    rate = _rate(result, _name(arm, best.draft_tokens), key)
    found: Verified = (None, None, "no difference shown", "it is the largest K itself")
    if best.draft_tokens != largest:
        names = {_name(arm, best.draft_tokens), _name(arm, largest)}
        row = next(
            row
            for row in result["comparisons"]
            if {row["a"], row["b"]} == names and (row["mode"], row["concurrency"]) == key
        )
        found = _of_best(row, _name(arm, best.draft_tokens))
    ratio, interval, verdict, reason = found
    return Tuned(
        mode=key[0],
        concurrency=key[1],
        plain_tok_s=plain,
        curve=curve,
        best=best.draft_tokens,
        predicted_tok_s=best.tok_s,
        measured_tok_s=rate,
        against=largest,
        ratio=ratio,
        interval=interval,
        verdict=verdict,
        reason=reason,
    )


Verified = tuple[float | None, tuple[float, float] | None, str, str | None]
"""Ratio of the best K to the largest, its interval, verdict and reason."""


def _of_best(row: Mapping[str, Any], best: str) -> Verified:
    """The comparison with the best K as the numerator, whichever way it was made."""
    if row["ratio"] is None:
        return None, None, row["verdict"], row["reason"]
    low, high = row["interval"]
    if row["a"] == best:
        return row["ratio"], (low, high), row["verdict"], row["reason"]
    turned = {"faster": "slower", "slower": "faster"}.get(row["verdict"], row["verdict"])
    return 1 / row["ratio"], (1 / high, 1 / low), turned, row["reason"]
