"""Each gate, closed by what it is for and open otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.load.sample import Sample
from orchestrator.measuring.metrics import Phase
from orchestrator.measuring.validity import problems, warnings
from tests.orchestrator.measured import drafted, plain, sample

FIXED = {"count": 4, "output_tokens": 100, "stop": "fixed"}
GOOD = [sample(n) for n in range(4)]
HERE = {"pid": 7, "started": 1.5, "listens": True}


def observed(after: dict[str, Any] = HERE, **more: Any) -> dict[str, Any]:
    return {
        "server": {"before": HERE, "after": after},
        "load": {"threads": 16, "foreign_threads": 0.2},
        "gpu": {"slowdowns": ["power cap"]},
    } | more


def found(phase: Phase, samples: list[Sample] | None = None, **more: Any) -> tuple[str, ...]:
    return problems(phase, samples or list(phase.samples), FIXED | more, observed())


def test_a_good_phase_has_no_problem() -> None:
    assert found(plain(GOOD)) == ()
    assert found(drafted(GOOD, 100, (70, 40, 20))) == ()


def test_failed_and_missing_requests() -> None:
    broken = sample(3, error="connection lost")
    assert found(plain(GOOD[:3]), [*GOOD[:3], broken]) == (
        "1 of 4 requests failed: connection lost",
    )
    assert found(plain(GOOD[:3])) == ("only 3 of 4 requests were sent",)


def test_a_request_counts_once() -> None:
    assert found(plain([*GOOD, GOOD[0]])) == ("1 requests were counted twice",)
    assert found(plain([*GOOD[:3], GOOD[0]])) == (
        "only 3 of 4 requests were sent",
        "1 requests were counted twice",
    )


def test_times_that_run_backwards() -> None:
    one = GOOD[3]
    for wrong in (
        replace(one, t_send_ns=one.chunks[0][0] + 1),
        replace(one, chunks=one.chunks[::-1]),
        replace(one, t_end_ns=one.chunks[-1][0] - 1),
    ):
        assert found(plain([*GOOD[:3], wrong])) == ("the times of 1 requests run backwards",)


def test_empty_replies_are_no_speed() -> None:
    empty = replace(sample(3, tokens=0), server_completion_tokens=None)
    assert found(plain([*GOOD[:3], empty]), stop="natural") == ("1 replies held no token",)


def test_replies_of_another_length_where_it_is_fixed() -> None:
    short = sample(3, tokens=90)
    assert found(plain([*GOOD[:3], short])) == (
        "1 replies do not have the fixed length of 100 tokens",
    )
    assert found(plain([*GOOD[:3], short]), stop="natural") == ()


def test_the_servers_own_count_must_agree() -> None:
    lying = replace(GOOD[3], server_completion_tokens=101)
    assert found(plain([*GOOD[:3], lying])) == (
        "1 replies hold another number of tokens than the server counted",
    )


@pytest.mark.parametrize(
    ("phase", "problem"),
    [
        (Phase(GOOD, None, "dflash", 3), "the engine reported nothing about speculation"),
        (Phase(GOOD, None, "dflash", 3, contradiction="5 of 4"), "5 of 4"),
        (drafted(GOOD, 0, (0, 0)), "the drafter was on, but nothing was drafted"),
        (drafted(GOOD, 100, (0, 0)), "hardly ever accepted (acceptance length 1.00)"),
        (drafted(GOOD, 1000, (90, 9)), "hardly ever accepted (acceptance length 1.10)"),
        (drafted(GOOD, 1000, (60, 60)), "only 6% of first drafts are accepted"),
    ],
)
def test_a_drafter_that_does_not_draft(phase: Phase, problem: str) -> None:
    [text] = found(phase)
    assert problem in text


def test_a_simulated_acceptance_length_has_to_come_about() -> None:
    as_told, none = drafted(GOOD, 100, (100, 50, 50)), drafted(GOOD, 100, (0, 0))
    assert problems(as_told, GOOD, FIXED, observed(), simulated_length=3.0) == ()
    assert problems(none, GOOD, FIXED, observed(), simulated_length=1.0) == ()
    assert problems(as_told, GOOD, FIXED, observed(), simulated_length=4.0) == (
        "acceptance length 3.00 came of a simulated 4.00",
    )


def test_another_server_than_before() -> None:
    for after, problem in (
        (HERE | {"pid": 8}, "the server is not the process that it was before the phase"),
        (HERE | {"started": 9.0}, "the server is not the process that it was before the phase"),
        (HERE | {"listens": False}, "another process listened on the server's port"),
    ):
        assert problems(plain(GOOD), GOOD, FIXED, observed(after)) == (problem,)


def test_a_quiet_machine_gives_no_warning() -> None:
    assert warnings(observed(), {"processes": []}) == ()
    assert warnings(None, {}) == ()
    unknown = observed(load={"threads": 16, "foreign_threads": None})
    assert warnings(unknown, {"processes": None, "reason": "no GPU in use"}) == ()


def test_foreign_load_and_slowed_clocks_are_warnings() -> None:
    busy = observed(
        load={"threads": 16, "foreign_threads": 5.04},
        gpu={"slowdowns": ["power cap", "thermal slowdown by the driver"]},
    )
    assert warnings(busy, {"processes": ["41, python, 900"]}) == (
        "on the GPU before the arm started: 41, python, 900",
        "other processes kept 5.0 of 16 hardware threads busy",
        "the GPU's clocks were lowered: thermal slowdown by the driver",
    )
    assert problems(plain(GOOD), GOOD, FIXED, busy) == ()
