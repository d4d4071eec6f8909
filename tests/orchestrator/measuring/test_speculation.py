"""Acceptance: both poolings, and by position with intervals."""

from __future__ import annotations

import pytest

from backends.base import RequestSpeculation
from orchestrator.measuring.metrics import measure
from orchestrator.measuring.speculation import acceptance_length_interval, speculation_json
from tests.orchestrator.measured import drafted, sample, told


def test_one_reply_of_58_000_tokens_shows_both_poolings_and_its_share() -> None:
    """The long one drafts worse (tau 3), the 99 short ones better (tau 4)."""
    short = [sample(n, 401, 1.0, told=told(100, 300)) for n in range(99)]
    long = sample("long", 58_001, 200.0, told=told(19_333, 38_667))
    steps, accepted = 99 * 100 + 19_333, 99 * 300 + 38_667
    phase = drafted([*short, long], steps, (accepted // 2 + 1, accepted - accepted // 2 - 1))
    found = measure(phase)
    pooled = found["acceptance_length"].value
    by_request = found["acceptance_length_per_request"].value
    assert pooled is not None
    assert pooled == pytest.approx(1 + accepted / steps)
    assert pooled == pytest.approx(3.34, abs=0.01)
    assert by_request == pytest.approx(3.99, abs=0.01)
    assert found["largest_request_share"].value == pytest.approx(58_001 / (99 * 401 + 58_001))
    interval = acceptance_length_interval([*short, long])
    assert interval is not None
    assert interval[0] < pooled < interval[1]
    assert interval[1] - interval[0] > 0.4  # one request carries it: not well known


def test_marginal_and_conditional_acceptance_by_position() -> None:
    found = speculation_json(drafted([sample(1)], 100, (80, 40, 0)))
    assert found["marginal_acceptance"] == [0.8, 0.4, 0.0]
    assert found["conditional_acceptance"] == [0.8, 0.5, 0.0]
    for share, (low, high) in zip([0.8, 0.4, 0.0], found["marginal_interval"], strict=True):
        assert low <= share < high
    # 40 of the 80 that got there: wider than 40 of 100.
    low, high = found["conditional_interval"][1]
    assert high - low > found["marginal_interval"][1][1] - found["marginal_interval"][1][0]
    assert found["interval_unit"] == "steps"


def test_a_position_that_was_never_reached_has_no_conditional_acceptance() -> None:
    found = speculation_json(drafted([sample(1)], 100, (5, 0, 0)))
    assert found["conditional_acceptance"] == [0.05, 0.0, None]
    assert found["conditional_interval"][2] is None
    assert found["marginal_interval"][2][0] == 0.0


def test_intervals_are_over_requests_where_each_tells_its_histogram() -> None:
    """Half the requests accept everything, half nothing: 10 requests say little, 1000 steps
    would say much.
    """

    def request(number: int) -> RequestSpeculation:
        histogram = (0, 0, 100) if number % 2 else (100, 0, 0)
        return RequestSpeculation(steps=100, accepted=100 * 2 * (number % 2), histogram=histogram)

    samples = [sample(n, told=request(n)) for n in range(10)]
    clustered = speculation_json(drafted(samples, 1000, (500, 500)))
    naive = speculation_json(drafted([sample(n) for n in range(10)], 1000, (500, 500)))
    assert (clustered["interval_unit"], naive["interval_unit"]) == ("requests", "steps")
    wide, narrow = clustered["marginal_interval"][0], naive["marginal_interval"][0]
    assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])
    assert clustered["conditional_interval"][1][0] > 0.95  # once there, always accepted


def test_requests_that_do_not_tell_leave_the_interval_unknown() -> None:
    assert acceptance_length_interval([sample(n) for n in range(10)]) is None
    assert acceptance_length_interval([sample(n, told=told(10, 5)) for n in range(4)]) is None
    equal = acceptance_length_interval([sample(n, told=told(10, 5)) for n in range(5)])
    assert equal == pytest.approx([1.5, 1.5])
