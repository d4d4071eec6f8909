"""Verdicts on timings with a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.comparing.certify import Certificate, Difference
from orchestrator.comparing.compare import Comparison, compare, decode_ratio
from orchestrator.measuring.metrics import Phase
from tests.orchestrator.measured import drafted, plain, sample, timed

MATCHED = Certificate(True, ())


def times(seed: int, mean: float = 1.0, noise: float = 0.01) -> list[float]:
    normal = np.random.default_rng(seed).normal(size=24)
    return [float(mean * np.exp(noise * z)) for z in normal]


def verdict(
    a: Phase,
    b: Phase,
    certificate: Certificate = MATCHED,
    problems: tuple[str, ...] = (),
    floor: float = 0.0,
) -> Comparison:
    return compare(
        "a",
        "b",
        (a, b),
        mode="greedy",
        concurrency=1,
        kind="drafter-against-none",
        certificate=certificate,
        problems=problems,
        floors={"drift": floor},
    )


def test_a_faster_and_a_slower_arm() -> None:
    quick, slow = plain(timed(times(1, 0.5))), plain(timed(times(2, 1.0)))
    there, back = verdict(quick, slow), verdict(slow, quick)
    assert there.verdict == "faster"
    assert back.verdict == "slower"
    assert there.ratio is not None
    assert there.ratio.low < 2.0 < there.ratio.high
    assert there.ratio.pairs == 24


def test_throughput_is_told_beside_what_each_request_sees() -> None:
    found = verdict(plain(timed([0.5] * 8)), plain(timed([1.0] * 8)))
    assert found.ratio is not None
    # All requests of these phases run at once: 101 tokens each within 10 ms and the decode time.
    assert found.throughput_ratio == pytest.approx(1.01 / 0.51)


def test_no_difference_is_shown_where_prompts_disagree() -> None:
    found = verdict(plain(timed(times(1, noise=0.5))), plain(timed(times(2, noise=0.5))))
    assert found.verdict == "no difference shown"
    assert found.prompts_to_show is not None
    assert found.prompts_to_show > 24


def test_no_difference_is_shown_below_the_floor() -> None:
    three_percent = plain(timed(times(1, 1 / 1.03, 0.002))), plain(timed(times(2, 1.0, 0.002)))
    assert verdict(*three_percent).verdict == "faster"
    found = verdict(*three_percent, floor=0.05)
    assert found.verdict == "no difference shown"
    assert (found.floor, found.floor_from) == (0.05, "drift")
    assert found.prompts_to_show is None  # 5 % is not above what the machine itself does
    assert found.ratio is not None
    assert found.ratio.low > 1


def test_slower_wants_the_same_distance_as_faster() -> None:
    slow, usual = plain(timed(times(1, 1.03, 0.002))), plain(timed(times(2, 1.0, 0.002)))
    assert verdict(slow, usual).verdict == "slower"
    assert verdict(slow, usual, floor=0.05).verdict == "no difference shown"


def test_a_large_ratio_is_no_difference_where_its_interval_holds_1() -> None:
    quick = plain(timed([1.0] * 6))
    for rates in ([0.5, 0.5, 0.5, 1.0, 2.0, 7.0], [1.9, 1.9, 1.9, 1.0, 0.5, 0.14]):
        found = verdict(quick, plain(timed(rates)))
        assert found.ratio is not None
        assert abs(found.ratio.value - 1) > 0.15
        assert found.ratio.low < 1 < found.ratio.high
        assert found.verdict == "no difference shown"


def test_less_than_one_percent_is_never_a_difference() -> None:
    found = verdict(plain(timed(times(1, 1 / 1.005, 0.0005))), plain(timed(times(2, 1.0, 0.0005))))
    assert found.ratio is not None
    assert found.ratio.low > 1
    assert found.verdict == "no difference shown"
    assert (found.floor, found.floor_from) == (0.01, "least")


def test_a_drift_of_five_percent_is_seen() -> None:
    """The reference's second turn over its first, on a machine that slowed down in between."""
    seen = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        prompts = np.exp(0.3 * random.normal(size=24))  # the same prompts are slow both times
        first = prompts * np.exp(0.02 * random.normal(size=24))
        again = prompts * 1.05 * np.exp(0.02 * random.normal(size=24))
        ratio = decode_ratio(timed(again.tolist()), timed(first.tolist()))
        assert ratio is not None
        seen += ratio.high < 1
        assert ratio.value == pytest.approx(1 / 1.05, abs=0.02)
    assert seen == 40


def test_only_prompts_answered_on_both_sides_count() -> None:
    left = timed([1.0] * 10)
    right = [*timed([2.0] * 9), sample("other", 101, 0.001)]
    ratio = decode_ratio(left, right)
    assert ratio is not None
    assert ratio.pairs == 9
    assert ratio.value == pytest.approx(2.0)


def test_too_few_prompts_are_refused() -> None:
    found = verdict(plain(timed([1.0] * 4)), plain(timed([2.0] * 4)))
    assert found.verdict == "refused"
    assert found.reason == "fewer than 5 prompts with timings on both sides"
    assert found.ratio is None


def test_differing_conditions_and_invalid_arms_get_no_ratio() -> None:
    arms = plain(timed(times(1, 0.5))), plain(timed(times(2)))
    differing = Certificate(False, (Difference("quantisation", "bf16", "q4_k_m"),))
    found = verdict(*arms, certificate=differing)
    assert (found.verdict, found.ratio) == ("refused", None)
    assert found.reason == "conditions differ: quantisation"
    found = verdict(*arms, problems=("a: 3 replies held no token",))
    assert (found.verdict, found.ratio) == ("refused", None)
    assert [d.field for d in found.certificate.differences] == ["validity"]


def test_factors_multiply_to_the_ratio() -> None:
    # 100 tokens after the first in 0.5 s, 40 steps: 2.5 tokens a step, of 12.5 ms against 10 ms.
    fast = drafted(timed([0.5] * 8), steps=8 * 40, per_position=(8 * 40, 8 * 20))
    found = verdict(fast, plain(timed([1.0] * 8)))
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(2.0)
    assert found.factors == pytest.approx({"tau": 2.5, "step_time": 0.8, "remainder": 1.0})
