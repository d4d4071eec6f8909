"""Share of the roofline and the ideal gain, of numbers that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backends.base import SpecRecord
from orchestrator.measuring.metrics import Measurement, Phase, measure
from orchestrator.measuring.roofline import Roof, roof
from tests.orchestrator.measured import sample

NAMES = ("weight_read_gb_s", "roofline_share", "ideal_speedup")
SECONDS, STEPS = 4.0, 100


def phase(of: Roof, **changes: Any) -> Phase:
    plain = Phase([sample("a", seconds=SECONDS, tokens=STEPS + 1)], None, "none", None, roof=of)
    return replace(plain, **changes)


def of(phase: Phase) -> dict[str, Measurement]:
    return measure(phase, NAMES)


def test_a_plain_step_reads_the_target() -> None:
    found = of(phase(Roof((50_000_000_000, 0), 4e12)))
    assert found["weight_read_gb_s"].value == pytest.approx(50 / (SECONDS / STEPS))
    assert found["roofline_share"].value == pytest.approx(50 / 0.04 / 4000)
    assert found["roofline_share"].n == STEPS
    assert found["ideal_speedup"].reason == "no speculation"


def test_a_drafted_step_reads_both() -> None:
    record = SpecRecord(50, 750, 100, None, "counters")
    found = of(phase(Roof((40, 10), 1.0), record=record, speculation="dflash", draft_tokens=15))
    assert found["weight_read_gb_s"].value == pytest.approx(50 / (SECONDS / 50) / 1e9)
    assert found["ideal_speedup"].value == pytest.approx(3.0 / 1.25)


def test_requests_in_flight_share_steps() -> None:
    both = [replace(sample(name), concurrency=2) for name in "ab"]
    found = of(phase(Roof((40, 10), 1.0), samples=both))
    assert found["roofline_share"].value is None
    assert "share steps" in str(found["roofline_share"].reason)


def test_reasons_come_from_the_run_directory() -> None:
    known = {"target": 5, "drafter": 1}
    assert roof({"bandwidth": {"bytes_per_s": 7.0}}, {"step_bytes": known}) == Roof((5, 1), 7.0)
    unknown = roof(
        {"bandwidth": {"bytes_per_s": None, "reason": "no torch"}}, {"step_bytes": known}
    )
    assert of(phase(unknown))["roofline_share"].reason == "no torch"
    assert of(phase(unknown))["weight_read_gb_s"].value is not None
    older = of(phase(roof({}, {})))
    assert older["roofline_share"].reason == "the weights of a step were not counted"
    gone = roof({}, {"step_bytes": {"reason": "x: no such file or folder."}})
    assert of(phase(gone))["ideal_speedup"].reason == "no speculation"
