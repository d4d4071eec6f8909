"""Intervals against simulated runs whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.comparing import interval
from orchestrator.comparing.interval import Row, pooled_ratio, prompts_to_show, share_interval

TRUE_RATIO = 1.3


def simulated(seed: int, lengths: float, prompts: int = 24) -> list[Row]:
    """One run: log-normal speeds of the drafter (acceptance differs by prompt), 5 % noise on both.

    `lengths` is the spread of the log of the reply lengths; 0 is a fixed length.
    """
    random = np.random.default_rng(seed)

    def noise(spread: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.exp(spread * random.normal(size=prompts) - spread * spread / 2)

    tokens = 127 * noise(lengths)
    fast = tokens / 100 / TRUE_RATIO * noise(0.5)
    slow = tokens / 100 * noise(0.05)
    return list(zip(tokens.tolist(), fast.tolist(), tokens.tolist(), slow.tolist(), strict=True))


@pytest.mark.parametrize("lengths", [0.0, 0.4])
def test_the_interval_covers_the_true_ratio(lengths: float) -> None:
    runs = [pooled_ratio(simulated(seed, lengths), resamples=1000) for seed in range(1000)]
    covered = sum(run.low <= TRUE_RATIO <= run.high for run in runs)
    assert 930 <= covered <= 975  # of 1000, at nominal 95 %


def test_both_sides_of_the_interval_are_missed_about_as_often() -> None:
    runs = [pooled_ratio(simulated(seed, 0.0), resamples=1000) for seed in range(1000)]
    assert sum(run.low > TRUE_RATIO for run in runs) <= 45
    assert sum(run.high < TRUE_RATIO for run in runs) <= 45


@pytest.mark.parametrize("prompts", [6, 12])
def test_few_prompts_widen_the_interval_without_blowing_it_up(prompts: int) -> None:
    runs = [
        pooled_ratio(simulated(seed, 0.0, prompts), resamples=1000, seed=seed)
        for seed in range(500)
    ]
    assert sum(run.low <= TRUE_RATIO <= run.high for run in runs) >= 455  # of 500
    widths = sorted(math.log(run.high / run.low) for run in runs)
    assert widths[475] < math.log(12)  # 95 % of them


def test_the_ratio_is_of_pooled_rates() -> None:
    rows: list[Row] = [(100, 1, 100, 2), (300, 2, 300, 2)]
    assert pooled_ratio(rows).value == pytest.approx((400 / 3) / (400 / 4))


def test_draws_that_are_kept_for_the_next_ratio_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, again = (pooled_ratio(simulated(1, 0.4)) for _ in range(2))
    monkeypatch.setattr(interval, "KEPT", 0)
    assert first == again == pooled_ratio(simulated(1, 0.4))


def test_the_same_rows_give_the_same_interval() -> None:
    rows = simulated(3, 0.4)
    assert pooled_ratio(rows) == pooled_ratio(rows)


def test_swapping_the_arms_inverts_the_ratio() -> None:
    rows = simulated(4, 0.0)
    there, back = pooled_ratio(rows), pooled_ratio([(c, d, a, b) for a, b, c, d in rows])
    assert back.value == pytest.approx(1 / there.value)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_no_spread_between_prompts_leaves_no_width() -> None:
    ratio = pooled_ratio([(100.0 * n, 1.0 * n, 100.0 * n, 2.0 * n) for n in range(1, 9)])
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((2, 2, 2))
    assert ratio.spread == 0


def test_spread_is_that_of_the_log_of_the_ratio_between_prompts() -> None:
    random = np.random.default_rng(0)
    rows: list[Row] = [(1.0, math.exp(0.1 * z), 1.0, 1.0) for z in random.normal(size=4000)]
    assert pooled_ratio(rows, resamples=100).spread == pytest.approx(0.1, rel=0.05)


def test_the_number_of_prompts_told_shows_five_percent_in_four_of_five_runs() -> None:
    needed = prompts_to_show(0.05, spread=0.2, floor=0.01)
    assert needed is not None
    shown = 0
    for seed in range(200):
        noise = np.exp(0.2 * np.random.default_rng(seed).normal(size=needed) - 0.02)
        rows: list[Row] = [(1.05, float(time), 1.0, 1.0) for time in noise]
        run = pooled_ratio(rows, resamples=400)
        shown += run.low > 1 and run.value > 1.01
    assert 146 <= shown <= 180


def test_a_floor_above_the_effect_is_out_of_reach() -> None:
    assert prompts_to_show(0.05, 0.2, floor=0.06) is None
    near, far = prompts_to_show(0.05, 0.2, floor=0.04), prompts_to_show(0.05, 0.2, floor=0.01)
    assert near is not None
    assert far is not None
    assert near > far


def test_share_interval_of_independent_trials_is_wilsons() -> None:
    # Wilson (1927), 40 of 100: 0.3094 to 0.4980.
    assert share_interval(40, 100) == pytest.approx((0.3094, 0.4980), abs=1e-4)
    assert share_interval(0, 100) == pytest.approx((0.0, 0.0370), abs=1e-4)
    assert share_interval(100, 100) == pytest.approx((0.9630, 1.0), abs=1e-4)
    assert share_interval(0, 0) is None


def test_share_interval_counts_requests_where_steps_of_one_resemble_each_other() -> None:
    random = np.random.default_rng(2)
    by_request = by_step = 0
    for _ in range(1000):
        trials = random.integers(20, 80, 24)
        hits = random.binomial(trials, random.beta(2, 2, 24))
        pairs = list(zip(hits.tolist(), trials.tolist(), strict=True))
        total = int(hits.sum()), int(trials.sum())
        clustered, naive = share_interval(*total, pairs), share_interval(*total)
        assert clustered is not None
        assert naive is not None
        by_request += clustered[0] <= 0.5 <= clustered[1]
        by_step += naive[0] <= 0.5 <= naive[1]
    assert by_request >= 915
    assert by_step < 600  # what ignoring it would claim to be 95 %
