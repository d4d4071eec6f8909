"""Metrics of steps, of phases whose numbers can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.measuring.metrics import Phase, measure
from orchestrator.measuring.steps import decode_steps
from tests.orchestrator.measured import drafted, plain, sample, timed, told

NAMES = (
    "acceptance_length",
    "acceptance_length_per_request",
    "draft_utilisation",
    "step_time_ms",
    "draft_time_ms",
    "target_time_ms",
)


def values(phase: Phase) -> dict[str, float | None]:
    return {name: found.value for name, found in measure(phase, NAMES).items()}


def test_a_plain_arm_has_a_step_a_token() -> None:
    phase = plain(timed([1.0, 3.0]))
    assert decode_steps(phase) == 200
    found = values(phase)
    assert found["step_time_ms"] == found["target_time_ms"] == pytest.approx(4000 / 200)
    assert found["acceptance_length"] is None
    assert measure(phase, ("draft_time_ms",))["draft_time_ms"].reason == "no speculation"


def test_steps_are_pooled_and_requests_are_not() -> None:
    requests = [sample("a", told=told(10, 30)), sample("b", told=told(90, 90))]
    found = values(drafted(requests, 100, (70, 50)))
    assert found["acceptance_length"] == pytest.approx(2.2)
    assert found["acceptance_length_per_request"] == pytest.approx((4 + 2) / 2)
    assert found["draft_utilisation"] == pytest.approx(120 / 200)


def test_a_step_is_drafting_and_the_rest() -> None:
    phase = drafted(timed([1.0, 1.0]), 50, (40, 30))
    assert phase.record is not None
    assert values(phase)["draft_time_ms"] is None
    record = replace(phase.record, draft_passes=52, draft_ms=520.0)
    found = values(replace(phase, record=record))
    assert found["step_time_ms"] == pytest.approx(40)
    assert found["draft_time_ms"] == pytest.approx(10)
    assert found["target_time_ms"] == pytest.approx(30)


def test_drafting_cannot_take_longer_than_its_step() -> None:
    phase = drafted(timed([1.0, 1.0]), 50, (40, 30))
    assert phase.record is not None
    record = replace(phase.record, draft_passes=50, draft_ms=2500.0)
    found = measure(replace(phase, record=record), ("target_time_ms",))["target_time_ms"]
    assert (found.value, found.reason) == (
        None,
        "drafting is told to take longer than the whole step",
    )


def test_numbers_that_contradict_each_other_are_the_reason() -> None:
    phase = replace(drafted(timed([1.0]), 50, (40,)), record=None, contradiction="5 of 4")
    found = measure(phase, ("acceptance_length", "draft_utilisation", "step_time_ms"))
    assert {one.reason for one in found.values()} == {"5 of 4"}


def test_no_steps_are_no_speed() -> None:
    phase = replace(drafted(timed([1.0]), 50, (40,)), record=None)
    assert decode_steps(phase) == "the engine reported no verification steps"
    assert values(phase) == dict.fromkeys(NAMES)
