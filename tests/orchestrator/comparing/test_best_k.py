"""The best K predicted, on numbers with a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.comparing.best_k import acceptance_length, predict, prediction_held, probes


def decode(right: list[bool], k: int) -> tuple[float, list[float]]:
    """tau and marginals of a drafter that is right or wrong at a place whoever asks."""
    place = steps = 0
    hits = [0] * k
    while place + k + 1 <= len(right):
        row = next((j for j in range(k) if not right[place + j]), k)
        for position in range(row):
            hits[position] += 1
        steps += 1
        place += row + 1
    return place / steps, [hit / steps for hit in hits]


def stretches(seed: int) -> list[bool]:
    """Easy and hard stretches of text, as real text has them."""
    random = np.random.default_rng(seed)
    found: list[bool] = []
    while len(found) < 40_000:
        share = random.choice([0.3, 0.7, 0.97])
        found += list(random.random(int(random.integers(10, 60))) < share)
    return found


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 11])
def test_tau_at_a_smaller_k_follows_from_the_largest(k: int) -> None:
    right = stretches(1)
    _, marginals = decode(right, 15)
    truth, _ = decode(right, k)
    assert acceptance_length(marginals, k) == pytest.approx(truth, rel=0.03)
    if k <= 5:  # where marginals alone are far too low
        assert 1 + sum(marginals[:k]) < 0.95 * truth


def test_tau_at_the_same_k_is_one_plus_the_marginals() -> None:
    assert acceptance_length([0.8, 0.5, 0.2], 3) == pytest.approx(2.5)
    assert acceptance_length([1.0, 1.0, 1.0], 1) == pytest.approx(2.0)
    assert acceptance_length([0.0, 0.0], 1) == pytest.approx(1.0)


def test_steps_are_interpolated_and_rates_follow() -> None:
    points = predict({1: 10.0, 3: 14.0}, {3: [0.8, 0.5, 0.2]})
    assert [p.draft_tokens for p in points] == [1, 2, 3]
    assert [p.step_ms for p in points] == pytest.approx([10, 12, 14])
    assert [p.step_measured for p in points] == [True, False, True]
    assert [p.tau_measured for p in points] == [False, False, True]
    assert points[2].tok_s == pytest.approx(1000 * 2.5 / 14)
    for point in points:
        assert point.tok_s == pytest.approx(1000 * point.acceptance_length / point.step_ms)


def test_where_a_smaller_k_was_measured_too_the_curve_passes_through_it() -> None:
    points = predict({1: 10.0, 3: 10.0}, {1: [0.6], 3: [0.8, 0.5, 0.2]})
    assert points[0].acceptance_length == pytest.approx(1.6)
    assert points[2].acceptance_length == pytest.approx(2.5)
    # What the rule misses at K 1 is half made up for at K 2.
    rule = [acceptance_length([0.8, 0.5, 0.2], k) for k in (1, 2)]
    assert points[1].acceptance_length == pytest.approx(rule[1] * (1 + 1.6 / rule[0]) / 2)


def test_the_best_k_lies_where_a_step_begins_to_cost_more_than_it_gives() -> None:
    marginals = decode(stretches(2), 15)[1]
    free = predict({1: 10.0, 15: 10.0}, {15: marginals})
    dear = predict({1: 10.0, 15: 150.0}, {15: marginals})
    between = predict({1: 10.0, 8: 10.5, 15: 30.0}, {15: marginals})
    best = [max(points, key=lambda p: p.tok_s).draft_tokens for points in (free, dear, between)]
    assert best == [15, 1, 8]


def test_probes_are_both_ends_and_between() -> None:
    assert probes(15) == [1, 4, 8, 15]
    assert probes(2) == [1, 2]
    assert probes(1) == [1]


@pytest.mark.parametrize(
    ("expected", "measured", "interval", "noise", "held"),
    [
        (1.30, 1.27, (1.26, 1.28), 0.0, True),  # near enough
        (1.30, 1.15, (1.05, 1.35), 0.0, True),  # a difference, and what was expected is in it
        (1.30, 1.15, (1.10, 1.20), 0.02, False),
        (1.30, 1.15, (1.10, 1.20), 0.40, None),  # the machine itself was off by more
        (1.30, 1.10, (0.90, 1.40), 0.0, None),  # too wide to tell
        (100.0, 97.0, None, 0.0, True),
        (100.0, 80.0, None, 0.0, False),
        (100.0, 125.0, None, 0.3, None),
    ],
)
def test_a_prediction_holds(
    expected: float,
    measured: float,
    interval: tuple[float, float] | None,
    noise: float,
    held: bool | None,
) -> None:
    assert prediction_held(expected, measured, interval, noise) is held
