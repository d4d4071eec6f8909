"""The comparison of clients, on a small scale: no number is judged, only that there is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.client import page
from benchmarks.client.peers import ROOT
from benchmarks.client.run import errors, highest
from benchmarks.client.truth import Record, Told, by_rung, told


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="one core for each side")
def test_a_quick_run_answers_every_question(tmp_path: Path) -> None:
    out = tmp_path / "client.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client.run", "--quick", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    assert [(row["streams"], row["per_chunk"]) for row in result["matrix"]] == [(4, 1), (4, 4)]
    (climb,) = result["ladder"]
    for row in [*result["matrix"], *climb["rungs"]]:
        assert row["reason"] is None
        assert row["lost_tokens"] == 0
        assert row["told"]["ttft_ms"] > row["truth"]["ttft_ms"]
    (cost,) = result["cost"]
    assert cost["small"]["tokens"] == 4 * 32
    assert cost["large"]["tokens"] == 2 * 4 * 32
    assert cost["us_per_token"] is not None
    text = page.page(result)
    assert "| no token lost or counted twice | 0 | yes |" in text
    for place in (str(ROOT), str(Path.home()), str(tmp_path)):
        assert place not in text


def test_formulas() -> None:
    """Two streams of 9 tokens, 4 in the first chunk, 1 s to it and 1 s after it."""
    records = [Record(0.0, 1.0, 2.0, 9, 4), Record(0.5, 1.5, 2.5, 9, 4)]
    assert told(records) == Told(2, 18, 1000.0, 1000.0 / 8, 18 / 2.5)
    assert told(records, "chunks", 2) == Told(2, 18, 1000.0, 1000.0 / 5, 10 / 1.5)
    assert told(records, "chunks", 1).rate == 5.0


def test_records_are_cut_into_rungs_by_their_start() -> None:
    late, early = Record(2.0, 3.0, 4.0, 2), Record(1.0, 3.0, 4.0, 2)
    assert by_rung([late, early], [1, 1]) == [[early], [late]]
    assert by_rung([late], [1, 1]) == "1 of 2 requests in its results"


def test_the_highest_rate_is_the_last_before_the_first_error() -> None:
    def row(rate: float, error: float) -> dict[str, object]:
        truth = Told(1, 10, 50.0, 1.0, rate)
        seen = Told(1, 10, 50.0, 1.0 + error, rate)
        return {"reason": None, "truth": {"rate": rate}, **errors(seen, truth)}

    assert highest([row(1e3, 0.001), row(2e3, -0.009), row(4e3, 0.02), row(8e3, 0.0)]) == 2e3
    assert highest([row(1e3, 0.02)]) is None


@pytest.mark.skipif(not page.RESULT.exists(), reason="not measured yet")
def test_the_page_is_made_from_the_result() -> None:
    result = json.loads(page.RESULT.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(result)
