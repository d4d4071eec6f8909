"""Where greedy outputs part, the engine says how near both tokens were; nothing fails without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.comparing.margins import MOST, Asked, Place, margin
from orchestrator.rundir import read_json
from tests.orchestrator.test_run import compare, result_of, with_drafter_flags

HERE = Place("p", (5, 6))
TOLD = Asked("plain", {HERE: {7: -0.7, 8: -0.75}}, None)


def test_the_margin_is_the_difference_of_log_probabilities() -> None:
    found = margin([TOLD], "p", (5, 6), 8, 7)
    assert found.value == pytest.approx(-0.05)
    assert (found.by, found.reason) == ("plain", None)


@pytest.mark.parametrize(
    ("asked", "prefix", "b", "reason"),
    [
        ([TOLD], (5, 6), 9, "token 9 is not among the 20 likeliest"),
        ([TOLD], (5,), 8, "not asked for in this run"),
        ([None], (5, 6), 8, "not asked for in this run"),
        ([TOLD], (5, 6), None, "one of both outputs had ended"),
        ([Asked("plain", {}, "HTTP 400: no")], (5, 6), 8, "plain: HTTP 400: no"),
    ],
)
def test_without_a_margin_there_is_a_reason(
    asked: list[Asked | None], prefix: tuple[int, ...], b: int | None, reason: str
) -> None:
    found = margin(asked, "p", prefix, 7, b)
    assert (found.value, found.reason) == (None, reason)


def drafter_row(out: Path) -> dict[str, Any]:
    rows = result_of(out)["audit"]["greedy"]
    (row,) = [r for r in rows if (r["a"], r["b"]) == ("llamacpp-dflash", "llamacpp-base")]
    return dict(row)


def test_the_arm_that_ends_is_asked_where_it_left_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = compare(with_drafter_flags(tmp_path, "--turn-at 5"), out)
    assert done.returncode == 0, done.stderr
    row = drafter_row(out)
    assert row["identical"] == 0
    assert [d["position"] for d in row["divergences"]] == [5] * row["prompts"]
    for divergence in row["divergences"]:
        told = divergence["margin"]
        assert told["value"] == pytest.approx((divergence["b"] - divergence["a"]) / 100)
        assert told["by"] == "llamacpp-dflash"
    asked = read_json(out / "arms" / "llamacpp-dflash" / "1" / "margins.json")
    assert len(asked["told"]) == row["prompts"] <= MOST
    # Plain again is plain: nothing to ask.
    again = read_json(out / "arms" / "llamacpp-base" / "2" / "margins.json")
    assert again == {"told": [], "reason": None}


def test_a_server_that_refuses_leaves_a_reason_and_the_arm_whole(tmp_path: Path) -> None:
    flags = "--turn-at 5 --fail-from 9 --fail-text 'no probabilities'"
    out = tmp_path / "out"
    assert compare(with_drafter_flags(tmp_path, flags), out).returncode == 0
    row = drafter_row(out)
    assert len(row["divergences"]) == row["prompts"] == 6
    told = row["divergences"][0]["margin"]
    assert told["value"] is None
    assert told["reason"].startswith("llamacpp-dflash: HTTP 500")
    assert "no probabilities" in told["reason"]
