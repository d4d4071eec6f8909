"""The floor below which no difference is shown, on repeats with a known spread."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.noise import block_floor, drift_floor
from tests.orchestrator.measured import plain, timed


def arm(seconds: Sequence[float]) -> Measured:
    """One that took so long in each of its blocks."""
    blocks = tuple(plain(timed([one] * 6)) for one in seconds)
    return Measured("a", "greedy", 1, blocks[0], 0, (), (), None, {}, blocks)


def test_drift_counts_in_either_direction_and_in_its_own_phase() -> None:
    rows = [
        {"mode": "greedy", "concurrency": 1, "ratio": 0.95},
        {"mode": "greedy", "concurrency": 4, "ratio": 1.3},
    ]
    assert drift_floor(rows, "greedy", 1) == pytest.approx(1 / 0.95 - 1)
    assert drift_floor(rows, "greedy", 4) == pytest.approx(0.3)
    assert drift_floor(rows, "temperature", 1) == 0


def test_one_block_shows_nothing() -> None:
    assert block_floor(arm([1.0]), arm([2.0])) == 0


def test_what_both_arms_share_is_no_noise_of_their_ratio() -> None:
    assert block_floor(arm([1.0, 1.4, 1.2]), arm([2.0, 2.8, 2.4])) == pytest.approx(0)


def test_two_standard_errors_of_the_ratio_over_blocks() -> None:
    # Ratios of 1.1, 1 and 1 / 1.1: logs of -0.0953, 0 and 0.0953, a deviation of 0.0953.
    found = block_floor(arm([1.0, 1.0, 1.0]), arm([1.1, 1.0, 1 / 1.1]))
    assert found == pytest.approx(math.exp(2 * math.log(1.1) / math.sqrt(3)) - 1)
