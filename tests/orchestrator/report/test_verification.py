"""What a step costs at each K, and the floor, as reports show them."""

from __future__ import annotations

import json
from typing import Any

import vl_convert

from orchestrator.report import verification, words
from orchestrator.report.facts import RunFacts, load
from orchestrator.report.tables import pairs
from orchestrator.result.build import build
from tests.orchestrator.report.synthetic import PLAIN, ArmLike, write_run

PHASE = ("greedy", 1)


def point(k: int, step: float, draft: float | None, interval: list[float] | None) -> dict[str, Any]:
    rest = None if draft is None else step - draft
    return {
        "arm": f"sglang-dflash-k{k}",
        "draft_tokens": k,
        "step_ms": step,
        "interval": interval,
        "steps": 100,
        "draft_ms": draft,
        "target_ms": rest,
    }


CURVE: dict[str, Any] = {
    "backend": "sglang",
    "speculation": "dflash",
    "mode": "greedy",
    "concurrency": 1,
    "acceptance": "simulated",
    "plain": "sglang-base",
    "plain_ms": 10.0,
    "points": [point(1, 13.2, None, None), point(8, 14.6, 3.0, [14.5, 14.8])],
    "line": {"at_zero_ms": 13.0, "per_token_ms": 0.2, "worst": 0.0},
    "draft_fixed_ms": 3.0,
    "reason": None,
}
RESULT: dict[str, Any] = {"verification": [CURVE, {**CURVE, "mode": "temperature"}]}


def test_the_table_begins_with_a_plain_step_and_tells_why_a_number_is_missing() -> None:
    plain, untold, told = verification.table(RESULT, PHASE).rows
    assert [cell.value for cell in plain][2:4] == [0, 10.0]
    assert [cell.text for cell in told][2:] == [
        *("8", "14.600", "14.500 to 14.800", "3.000", "11.600", "1.46"),
    ]
    assert untold[4].text == words.UNKNOWN
    assert untold[5].why == "the engine does not tell how long it drafts"


def test_a_sentence_says_what_the_line_through_the_points_tells() -> None:
    (line,) = verification.sentences(RESULT, PHASE)
    assert "10.00 ms at K 0, 13.20 ms at K 1, 14.60 ms at K 8" in line
    assert "drafting costs 3.00 ms, and each token drafted and verified 0.200 ms" in line
    bent = {"verification": [{**CURVE, "line": None, "draft_fixed_ms": None, "plain_ms": None}]}
    (line,) = verification.sentences(bent, PHASE)
    assert "by a line" not in line
    assert "K 0" not in line


def facts(tmp_path: Any, *arms: ArmLike) -> RunFacts:
    run = write_run(tmp_path / "run", [PLAIN, *arms])
    return load(run, json.loads(json.dumps(build(run))))


def test_the_plot_holds_every_point_and_can_be_drawn(tmp_path: Any) -> None:
    run = facts(tmp_path)
    assert verification.chart(run, PHASE) is None
    run.result["verification"].append(CURVE)
    chart = verification.chart(run, PHASE)
    assert chart is not None
    assert [(row["k"], row["step"]) for row in chart.rows] == [(0, 10.0), (1, 13.2), (8, 14.6)]
    assert vl_convert.vegalite_to_svg(json.dumps({**chart.whole(), "width": 400}))


def test_pairs_say_why_a_step_is_not_taken_apart(tmp_path: Any) -> None:
    run = facts(tmp_path, ArmLike("llamacpp-dflash", speculation="dflash", speed=260.0))
    table = pairs(run.result, PHASE)
    at = table.columns.index("of it drafting") if "of it drafting" in table.columns else None
    (row,) = (row for row in run.result["comparisons"] if row["mode"] == "greedy")
    assert row["factors"]["draft"] is None
    assert row["unsplit"] == (
        "llamacpp-dflash: the engine does not tell how long it drafts, and no other K was measured"
    )
    if at is not None:  # a column without a number may be left out
        assert table.rows[0][at].why == row["unsplit"]


def test_the_floor_is_told_with_what_showed_it() -> None:
    row = {"mode": "greedy", "concurrency": 1, "kind": "drafter-against-none"}

    def said(*floors: tuple[float | None, str | None]) -> str:
        rows = [{**row, "floor": floor, "floor_from": why} for floor, why in floors]
        return words.floor_sentence({"comparisons": rows}, PHASE)

    assert said((0.01, "least")) == (
        "Below 1.0 % no difference is shown: repeats show no more than that, or nothing was "
        "repeated."
    )
    assert said((0.02, "drift"), (0.05, "blocks"), (None, None)).startswith(
        "Below 2.0 %, in some pairs 5.0 % no difference is shown: that is how far the reference arm"
    )
    assert said() == "Nothing was compared, so there is no floor."
