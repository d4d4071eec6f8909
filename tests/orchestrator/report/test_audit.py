"""Both audits in all three reports: what they found, what they did not, and why a number lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.report import audit, html, markdown, terminal
from orchestrator.report.facts import load
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory, write_json
from tests.orchestrator.report.synthetic import DSPARK, PLAIN, write_run


def row(verdict: str, positions: str, p: float, impossible: int) -> dict[str, Any]:
    worst = {"prompt": "p3", "position": 2, "token": 7, "drawn": 9, "of": 30, "expected": 0.004}
    power = {"forced": 0.16, "distance": 0.1}
    found = {"tokens": 300, "surprise": -0.2, "p_surprise": p, "p_fit": 0.5, "contexts": 12}
    return {
        "arm": "llamacpp-dspark",
        "mode": "t1.0",
        "positions": positions,
        "noise": 0.04,
        "verdict": verdict,
        "p_adjusted": p,
        "impossible": impossible,
        "power": power,
        "worst": worst,
        **found,
    }


def divergence(prompt: str, value: float | None, reason: str | None = None) -> dict[str, Any]:
    told = {"value": value, "by": "llamacpp-base", "reason": reason}
    return {"prompt": prompt, "position": 4, "a": 7, "b": 9, "margin": told}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    run = write_run(tmp_path_factory.mktemp("runs") / "run", (PLAIN, DSPARK))
    rows = [row("as asked", "first token", 0.6, 0), row("differs", "later tokens", 0.0, 3)]
    write_json(run.distribution_file, {"rows": rows})
    return run


@pytest.fixture(scope="module")
def result(run: RunDirectory) -> dict[str, Any]:
    found = build(run)
    found["audit"]["greedy"][0].update(
        identical=9,
        divergences=[
            divergence("p1", 0.02),
            divergence("p2", -0.31),
            divergence("p3", None, "one of both outputs had ended"),
        ],
    )
    return found


def test_the_largest_margin_stands_with_what_lacks_one(result: dict[str, Any]) -> None:
    (cell,) = [
        row[audit.greedy(result).columns.index("largest margin (nats)")]
        for row in audit.greedy(result).rows[:1]
    ]
    assert cell.value == 0.31
    assert cell.why == "of 2 of 3 differences; one of both outputs had ended"


def test_every_report_names_the_test_that_failed(run: RunDirectory, result: dict[str, Any]) -> None:
    facts = load(run, result)
    for page in (html.render(facts), markdown.render(facts)):
        assert "Sampling against the exact distribution" in page
        assert "later tokens" in page
        assert "0.310" in page
    text = terminal.render(result)
    assert "1 of 2 tests as asked" in text
    assert "llamacpp-dspark, t1.0, later tokens: differs" in text
    assert "largest margin 0.310 nats" in " ".join(text.split())


def test_without_an_audit_at_t_above_0_there_is_no_table(tmp_path: Path) -> None:
    found = build(write_run(tmp_path / "run", (PLAIN, DSPARK)))
    assert [table.title for table in audit.tables(found)] == ["Greedy outputs, token for token"]
    assert "exact distribution" not in terminal.render(found)
