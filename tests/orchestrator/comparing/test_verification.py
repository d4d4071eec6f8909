"""Cost of a step against K, on steps with a known cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backends.base import RequestSpeculation
from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.verification import Curve, curves, step_interval, step_time_split
from tests.orchestrator.measured import drafted, plain, sample

STEPS = 50
CONDITIONS = {"backend": "llamacpp", "quantisation": "bf16", "acceptance": "real"}


def measured(
    arm: str, step_ms: float, k: int | None, draft_ms: float | None = None, **changes: Any
) -> Measured:
    """Ten requests of 50 steps that take `step_ms` each, of which `draft_ms` are told."""
    tokens, seconds = STEPS * (1 if k is None else 2) + 1, STEPS * step_ms / 1000
    told = RequestSpeculation(steps=STEPS, accepted=STEPS) if k is not None else None
    samples = [sample(number, tokens, seconds, arm=arm, told=told) for number in range(10)]
    phase = plain(samples) if k is None else drafted(samples, 10 * STEPS, (500, *[0] * (k - 1)))
    if draft_ms is not None and phase.record is not None:
        passes = 10 * STEPS
        record = replace(phase.record, draft_passes=passes, draft_ms=passes * draft_ms)
        phase = replace(phase, record=record)
    drafter = "none" if k is None else "toy"
    conditions = {**CONDITIONS, "speculation": phase.speculation, "drafter": drafter, **changes}
    return Measured(arm, "greedy", 1, phase, 0, (), (), None, conditions, (phase,))


def sweep(step: Callable[[int], float], *ks: int, **changes: Any) -> list[Measured]:
    return [measured(f"k{k}", step(k), k, **changes) for k in ks]


PLAIN = measured("base", 10.0, None)


def only(found: list[Curve]) -> Curve:
    (curve,) = found
    return curve


def test_a_line_tells_what_drafting_costs_whatever_k_is() -> None:
    """Plain 10 ms, drafting 3 ms, and 0.2 ms for each drafted token."""
    curve = only(curves([PLAIN, *sweep(lambda k: 13 + 0.2 * k, 8, 1, 4, 15)]))
    assert [point.draft_tokens for point in curve.points] == [1, 4, 8, 15]
    assert [point.step_ms for point in curve.points] == pytest.approx([13.2, 13.8, 14.6, 16.0])
    assert curve.plain == "base"
    assert curve.plain_ms == pytest.approx(10)
    assert curve.line is not None
    assert curve.line.at_zero_ms == pytest.approx(13)
    assert curve.line.per_token_ms == pytest.approx(0.2)
    assert curve.draft_fixed_ms == pytest.approx(3)
    assert curve.reason is None


def test_a_plain_arm_under_other_conditions_is_none_of_the_curve() -> None:
    line = sweep(lambda k: 13 + 0.2 * k, 1, 4, 15)
    other = measured("base", 10.0, None, quantisation="q4_k_m")
    assert only(curves([other, *line])).plain is None
    assert only(curves([other, PLAIN, *line])).plain == "base"


def test_why_a_line_does_not_tell() -> None:
    line = sweep(lambda k: 13 + 0.2 * k, 1, 4, 15)
    bent = sweep(lambda k: 13 if k < 15 else 30, 1, 4, 8, 15)
    for arms, reason in (
        ([PLAIN, *line[:2]], "fewer than 3 K"),
        (line, "no arm without a drafter"),
        ([PLAIN, *bent], "no line in K"),
        ([measured("base", 14.0, None), *line], "starts below a step without a drafter"),
    ):
        curve = only(curves(arms))
        assert curve.draft_fixed_ms is None
        assert reason in str(curve.reason)


def test_simulated_and_real_acceptance_are_two_curves() -> None:
    real, simulated = sweep(float, 1, 2), sweep(float, 1, 2, acceptance="simulated, length 1.5")
    assert [curve.acceptance for curve in curves([*real, *simulated])] == ["real", "simulated"]


def test_what_is_no_curve() -> None:
    assert curves([PLAIN, *sweep(float, 4)]) == []
    first, second = sweep(float, 1, 2)
    assert curves([first, replace(second, problems=("a fault",))]) == []
    assert curves([first, measured("other", 2.0, 2, engine_args="--x")]) == []


def test_an_interval_needs_requests_that_tell_their_steps() -> None:
    varied = [
        sample(n, 101, seconds, told=RequestSpeculation(steps=STEPS, accepted=STEPS))
        for n, seconds in enumerate([0.9, 1.0, 1.1, 1.0, 0.95, 1.05])
    ]
    found = step_interval(drafted(varied, 300, (300,)))
    assert found is not None
    assert found[0] < 20 < found[1]
    assert found[1] - found[0] < 4
    assert step_interval(drafted(varied[:4], 200, (200,))) is None
    assert (
        step_interval(drafted([replace(one, server=None) for one in varied], 300, (300,))) is None
    )


def test_the_step_time_factor_is_taken_apart_where_drafting_is_told() -> None:
    arm = measured("a", 16.0, 4, draft_ms=4.0)
    factors, reason = step_time_split(arm, PLAIN, [])
    assert reason is None
    # 10 / 16 = 10 / 12 x 12 / 16: verifying takes 1.2 plain steps, drafting a quarter of a step.
    assert factors == {"target": pytest.approx(10 / 12), "draft": pytest.approx(12 / 16)}
    other, _ = step_time_split(arm, measured("b", 15.0, 4, draft_ms=5.0), [])
    assert other == {"target": pytest.approx(10 / 12), "draft": pytest.approx(15 / 16 * 12 / 10)}


def test_the_factor_is_taken_apart_by_a_line_or_not_at_all() -> None:
    arms = sweep(lambda k: 13 + 0.2 * k, 1, 4, 15)
    factors, reason = step_time_split(arms[1], PLAIN, curves([PLAIN, *arms]))
    assert reason is None
    assert factors == {"target": pytest.approx(10 / 10.8), "draft": pytest.approx(10.8 / 13.8)}
    factors, reason = step_time_split(arms[1], PLAIN, [])
    assert factors == {"target": None, "draft": None}
    assert reason == "k4: the engine does not tell how long it drafts, and no other K was measured"
    _, reason = step_time_split(arms[1], PLAIN, curves([PLAIN, *arms[:2]]))
    assert "fewer than 3 K" in str(reason)
    _, reason = step_time_split(measured("a", 4.0, 4, draft_ms=5.0), PLAIN, [])
    assert reason == "a: drafting is told to take longer than the whole step"
