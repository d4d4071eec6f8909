"""The best K of an arm: predicted, then measured, and whether the prediction held.

What a step costs at each K is timed on arms with simulated acceptance, which all take the same
number of steps; how many drafts are accepted is measured once, on the real arm at its largest K.
An engine that cannot simulate has both measured on real arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from backends.errors import EngineError, InputError
from backends.simulate import Simulated
from orchestrator import job as jobs
from orchestrator import run as flow
from orchestrator.comparing.best_k import Point, predict, prediction_held, probes
from orchestrator.comparing.noise import drift_floor
from orchestrator.inputs.expand import Arm
from orchestrator.job import Job
from orchestrator.planning.plan import plan_arm
from orchestrator.progress import Progress
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory, write_json

SCHEMA = 2
SIMULATED_LENGTH = 1.5
"""Within what any K can give, and the same at each, so that all replies take as many steps."""


@dataclass(frozen=True)
class Tuned:
    """The curve of one phase, and what came of its best K."""

    mode: str
    concurrency: int
    steps_from: Literal["simulated", "real"]
    """Arms on which steps were timed."""
    why_real: str | None
    plain_tok_s: float | None
    """Of the recipe's arm without a drafter on the same engine and weights, where it has one."""
    curve: tuple[Point, ...]
    best: int
    predicted_tok_s: float
    measured_tok_s: float | None
    against: int
    """The largest K, which the best one is compared with."""
    predicted_ratio: float
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    reason: str | None
    held: bool | None
    """Whether the ratio came out as predicted; None where the measurement cannot tell."""


Key = tuple[str, int]


def tune(job: Job, arm_id: str, ks: Sequence[int] | None, out: Path, progress: Progress) -> Any:
    """Measure the curve in `out`/curve, then the best K in `out`/best. Returns tune.json's data."""
    arm = _arm(job, arm_id)
    assert arm.draft_tokens is not None, "_arm has checked"
    largest = arm.draft_tokens
    chosen = sorted({*ks, largest}) if ks else probes(largest)
    if chosen[-1] > largest:
        raise InputError(f"K {chosen[-1]} is above the arm's {largest}.", where=arm_id)
    why_real = _cannot_simulate(job, arm)
    real = [_at(arm, k) for k in ([largest] if why_real is None else reversed(chosen))]
    timed = real if why_real is not None else [_at(arm, k, simulated=True) for k in chosen]
    plain = next((one for one in job.arms if _is_plain(one, arm)), None)
    others = [one for one in (*timed, plain) if one is not None and one not in real]
    first = _run(job, [*real, *others], out / "curve", progress)
    curves = {
        key: predict(_steps(first, timed, key), _marginals(first, real, key))
        for key in _phases(first)
    }
    best = {key: max(curve, key=lambda point: point.tok_s) for key, curve in curves.items()}
    missing = sorted({p.draft_tokens for p in best.values()} - {one.draft_tokens for one in real})
    second = first
    if missing:
        again = [_at(arm, largest), *(_at(arm, k) for k in missing)]
        second = _run(job, again, out / "best", progress)
    tuned = []
    for key, curve in curves.items():
        source = second if best[key].draft_tokens in missing else first
        rate = _rate(first, plain.id, key) if plain is not None else None
        tuned.append(_verified(first, source, arm, key, curve, best[key], why_real, rate))
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


def _at(arm: Arm, k: int, *, simulated: bool = False) -> Arm:
    name = f"{arm.id}-k{k}"
    if not simulated:
        return replace(arm, id=name, draft_tokens=k)
    length = Simulated(length=SIMULATED_LENGTH)
    return replace(arm, id=f"{name}-simulated", draft_tokens=k, simulated=length)


def _cannot_simulate(job: Job, arm: Arm) -> str | None:
    try:
        plan_arm(job.recipe, replace(arm, simulated=Simulated(length=SIMULATED_LENGTH)))
    except InputError as error:
        return error.what
    return None


def _is_plain(one: Arm, arm: Arm) -> bool:
    same = (one.backend, one.target, one.engine_args) == (arm.backend, arm.target, arm.engine_args)
    return same and one.drafter is None


def _run(job: Job, arms: Sequence[Arm], out: Path, progress: Progress) -> dict[str, Any]:
    """Every arm, the first one again at the end."""
    changes = {"reference": arms[0].id, "bookend": True}
    recipe = job.recipe.model_copy(update={"order": job.recipe.order.model_copy(update=changes)})
    planned = tuple(plan_arm(recipe, one) for one in arms)
    job = replace(job, recipe=recipe, arms=tuple(arms), planned=planned)
    jobs.require_runnable(job)
    run = jobs.create(job, out)
    flow.execute(job, run, progress)
    result = build(RunDirectory.open(out))
    write_json(run.result_file, result)
    for one in result["arms"]:
        if one["status"] != "ok":
            raise EngineError(f"{one['status']}: {one['reason']}", where=one["id"])
    return result


def _phases(result: Mapping[str, Any]) -> list[Key]:
    return [(mode["mode"], mode["concurrency"]) for mode in result["arms"][0]["modes"]]


def _mode(result: Mapping[str, Any], arm_id: str, key: Key) -> Mapping[str, Any]:
    found = next(one for one in result["arms"] if one["id"] == arm_id)
    mode: Mapping[str, Any] = next(
        m for m in found["modes"] if (m["mode"], m["concurrency"]) == key
    )
    if mode["problems"]:
        raise EngineError(f"{mode['mode']}: {'; '.join(mode['problems'])}", where=found["id"])
    return mode


def _rate(result: Mapping[str, Any], arm_id: str, key: Key) -> float | None:
    value: float | None = _mode(result, arm_id, key)["metrics"]["decode_tok_s"]["value"]
    return value


def _steps(result: Mapping[str, Any], arms: Sequence[Arm], key: Key) -> dict[int, float]:
    found: dict[int, float] = {}
    for arm in arms:
        step = _mode(result, arm.id, key)["metrics"]["step_time_ms"]
        if step["value"] is None:
            raise EngineError(f"no step time: {step['reason']}", where=arm.id)
        found[arm.draft_tokens or 0] = step["value"]
    return found


def _marginals(
    result: Mapping[str, Any], arms: Sequence[Arm], key: Key
) -> dict[int, Sequence[float]]:
    found: dict[int, Sequence[float]] = {}
    for arm in arms:
        told = _mode(result, arm.id, key)["speculation"]
        if told is None or told["marginal_acceptance"] is None:
            raise EngineError("the engine tells no acceptance by position.", where=arm.id)
        found[arm.draft_tokens or 0] = told["marginal_acceptance"]
    return found


def _verified(
    first: Mapping[str, Any],
    result: Mapping[str, Any],
    arm: Arm,
    key: Key,
    curve: tuple[Point, ...],
    best: Point,
    why_real: str | None,
    plain: float | None,
) -> Tuned:
    largest = curve[-1]
    names = [_at(arm, point.draft_tokens).id for point in (best, largest)]
    rate = _rate(result, names[0], key)
    expected = best.tok_s / largest.tok_s
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    verdict = "no difference shown"
    reason: str | None = "it is the largest K itself"
    held: bool | None = None
    noise = max(drift_floor(one["drift"], *key) for one in (first, result))
    if best is not largest:
        row = next(
            row
            for row in result["comparisons"]
            if {row["a"], row["b"]} == set(names) and (row["mode"], row["concurrency"]) == key
        )
        ratio, interval, verdict, reason = _of_best(row, names[0])
        held = prediction_held(expected, ratio, interval, noise) if ratio is not None else None
    elif rate is not None:
        held = prediction_held(best.tok_s, rate, None, noise)
    return Tuned(
        mode=key[0],
        concurrency=key[1],
        steps_from="real" if why_real is not None else "simulated",
        why_real=why_real,
        plain_tok_s=plain,
        curve=curve,
        best=best.draft_tokens,
        predicted_tok_s=best.tok_s,
        measured_tok_s=rate,
        against=largest.draft_tokens,
        predicted_ratio=expected,
        ratio=ratio,
        interval=interval,
        verdict=verdict,
        reason=reason,
        held=held,
    )


def _of_best(
    row: Mapping[str, Any], best: str
) -> tuple[float | None, tuple[float, float] | None, str, str | None]:
    """Ratio, interval, verdict and reason with the best K as numerator, whichever way compared."""
    if row["ratio"] is None:
        return None, None, row["verdict"], row["reason"]
    low, high = row["interval"]
    if row["a"] == best:
        return row["ratio"], (low, high), row["verdict"], row["reason"]
    turned = {"faster": "slower", "slower": "faster"}.get(row["verdict"], row["verdict"])
    return 1 / row["ratio"], (1 / high, 1 / low), turned, row["reason"]
