"""What a step costs at each K, and how much of it is drafting.

t_step(K) = t_verify(K + 1) + t_draft(K). An engine that tells how long it drafts tells them apart.
Without that, arms at several K and one without a drafter do, as far as a line fits: where a step
costs a + b K, and one without a drafter t, a - t is what drafting costs whatever K is, and the rest
is verification. Acceptance does not change what a step costs, so arms may simulate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.interval import pooled_ratio
from orchestrator.load.arrivals import decode_intervals
from orchestrator.measuring.metrics import Phase, measure
from orchestrator.planning.plan import REAL

SAME = (
    "backend",
    "speculation",
    "drafter",
    "quantisation",
    "kv_dtype",
    "graph_mode",
    "engine_args",
)
"""Conditions under which arms at several K make one curve."""
FEWEST_FOR_LINE = 3
STRAIGHT = 0.05
"""A line counts where no measured step is further off than this share."""
MIN_REQUESTS = 5


@dataclass(frozen=True)
class Point:
    arm: str
    draft_tokens: int
    step_ms: float
    interval: tuple[float, float] | None
    """95 %, over requests; None where they do not tell their steps or are too few."""
    steps: int
    draft_ms: float | None
    target_ms: float | None


@dataclass(frozen=True)
class Line:
    """step_ms = at_zero_ms + per_token_ms x K."""

    at_zero_ms: float
    per_token_ms: float
    worst: float
    """Largest distance of a measured step from it, as a share."""


@dataclass(frozen=True)
class Curve:
    backend: str
    speculation: str
    mode: str
    concurrency: int
    acceptance: Literal["real", "simulated"]
    plain: str | None
    """The arm without a drafter under the same conditions."""
    plain_ms: float | None
    points: tuple[Point, ...]
    line: Line | None
    draft_fixed_ms: float | None
    """What drafting costs whatever K is, by the line."""
    reason: str | None
    """Why the line does not tell that."""


def curves(measured: Sequence[Measured]) -> list[Curve]:
    """One for each drafter, phase and kind of acceptance that was measured at two K or more."""
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for one in measured:
        if one.phase.speculation != "none" and not one.problems:
            groups.setdefault(_key(one), []).append(one)
    several = (g for g in groups.values() if len({one.phase.draft_tokens for one in g}) > 1)
    found = (_curve(group, _plain(group[0], measured)) for group in several)
    return [curve for curve in found if len({p.draft_tokens for p in curve.points}) > 1]


def step_time_split(
    a: Measured, b: Measured, found: Sequence[Curve]
) -> tuple[dict[str, float | None], str | None]:
    """step_time = target x draft, or the reason why it cannot be taken apart.

    target is the ratio of what the passes of the target took (b over a), draft that of the shares
    of a step which they left to drafting.
    """
    rest: list[float] = []
    steps = [measure(one.phase, ("step_time_ms",))["step_time_ms"].value for one in (a, b)]
    for one, step in zip((a, b), steps, strict=True):
        drafting = _drafting(one, found)
        if step is not None and not isinstance(drafting, str) and drafting >= step:
            drafting = "drafting is told to take longer than the whole step"
        if step is None or isinstance(drafting, str):
            reason = drafting if isinstance(drafting, str) else "no step was timed"
            return {"target": None, "draft": None}, f"{one.arm}: {reason}"
        rest.append(step - drafting)
    assert steps[0] is not None, "each has been looked at"
    assert steps[1] is not None
    target = rest[1] / rest[0]
    return {"target": target, "draft": steps[1] / steps[0] / target}, None


def _drafting(one: Measured, found: Sequence[Curve]) -> float | str:
    """Milliseconds of a step, as the engine or a line through several K tells."""
    if one.phase.speculation == "none":
        return 0.0
    told = measure(one.phase, ("draft_time_ms",))["draft_time_ms"]
    if told.value is not None:
        return told.value
    mine = [
        curve
        for curve in found
        if any(point.arm == one.arm for point in curve.points)
        and (curve.mode, curve.concurrency) == (one.mode, one.concurrency)
    ]
    if not mine:
        return f"{told.reason}, and no other K was measured"
    fixed = mine[0].draft_fixed_ms
    return fixed if fixed is not None else f"{told.reason}, and {mine[0].reason}"


def _key(one: Measured) -> tuple[Any, ...]:
    real = one.conditions.get("acceptance") == REAL
    return (*(one.conditions.get(name) for name in SAME), one.mode, one.concurrency, real)


def _plain(drafted: Measured, measured: Sequence[Measured]) -> Measured | None:
    """The arm without a drafter, all else being the same."""
    mine = {**drafted.conditions, "speculation": "none", "drafter": "none"}
    for one in measured:
        if one.problems or (one.mode, one.concurrency) != (drafted.mode, drafted.concurrency):
            continue
        if all(one.conditions.get(name) == mine.get(name) for name in SAME):
            return one
    return None


def _curve(group: Sequence[Measured], plain: Measured | None) -> Curve:
    points = tuple(sorted(_points(group), key=lambda point: (point.draft_tokens, point.arm)))
    line = _line(points)
    plain_ms = _step(plain.phase) if plain is not None else None
    fixed, reason = _fixed(line, plain_ms)
    first = group[0]
    return Curve(
        first.conditions["backend"],
        first.phase.speculation,
        first.mode,
        first.concurrency,
        "real" if first.conditions.get("acceptance") == REAL else "simulated",
        plain.arm if plain is not None else None,
        plain_ms,
        points,
        line,
        fixed,
        reason,
    )


def _points(group: Sequence[Measured]) -> Iterator[Point]:
    names = ("step_time_ms", "draft_time_ms", "target_time_ms")
    for one in group:
        found = measure(one.phase, names)
        step, k = found["step_time_ms"], one.phase.draft_tokens
        if step.value is not None and k is not None:
            draft, target = found["draft_time_ms"].value, found["target_time_ms"].value
            yield Point(one.arm, k, step.value, step_interval(one.phase), step.n, draft, target)


def _step(phase: Phase) -> float | None:
    return measure(phase, ("step_time_ms",))["step_time_ms"].value


def step_interval(phase: Phase) -> tuple[float, float] | None:
    """95 % of the pooled step time in ms, over requests; None where they do not tell steps."""
    rows = []
    for sample in phase.samples:
        steps = sample.server.steps if sample.server is not None else None
        for _, seconds in decode_intervals([sample]):
            if not steps:
                return None
            rows.append((1000 * seconds, float(steps), 1.0, 1.0))
    if len(rows) < MIN_REQUESTS:
        return None
    ratio = pooled_ratio(rows)
    return ratio.low, ratio.high


def _line(points: Sequence[Point]) -> Line | None:
    if len({point.draft_tokens for point in points}) < FEWEST_FOR_LINE:
        return None
    k = np.array([point.draft_tokens for point in points], dtype=np.float64)
    step = np.array([point.step_ms for point in points])
    slope, start = np.polyfit(k, step, 1)
    worst = np.max(np.abs(start + slope * k - step) / step)
    return Line(float(start), float(slope), float(worst))


def _fixed(line: Line | None, plain_ms: float | None) -> tuple[float | None, str | None]:
    if line is None:
        return None, f"fewer than {FEWEST_FOR_LINE} K were measured"
    if line.worst > STRAIGHT:
        return None, f"a step's time is no line in K (a point is {line.worst:.0%} off)"
    if plain_ms is None:
        return None, "no arm without a drafter was measured"
    if line.at_zero_ms <= plain_ms:
        return None, "the line starts below a step without a drafter"
    return line.at_zero_ms - plain_ms, None
