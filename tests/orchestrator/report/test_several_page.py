"""The page of several runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.report import between, several, several_page
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory
from tests.orchestrator.report.reading import Reader
from tests.orchestrator.report.synthetic import DSPARK, MODES, PLAIN, ArmLike, write_run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def page(*runs: RunDirectory) -> Reader:
    return Reader(several_page.render([(run, build(run)) for run in runs]))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, RunDirectory]:
    folder = tmp_path_factory.mktemp("runs")
    early = write_run(folder / "early", (PLAIN, DSPARK))
    faster = ArmLike("llamacpp-base", speed=400.0)
    return early, write_run(folder / "late", (faster, DSPARK), recipe_text="schema: 1\nname: b\n")


def test_it_says_first_what_is_the_same(runs: tuple[RunDirectory, RunDirectory]) -> None:
    reader = page(*runs)
    assert "The same machine: A CPU, 8 threads." in reader.words
    assert "Not the same recipe: all are called synthetic, but they differ." in reader.words
    assert (
        "Of 4 comparisons of an arm with itself in another run: 2 faster, 2 no difference shown."
        in reader.words
    )
    assert any("+name: b" in text for text in reader.words)


def test_numbers_are_those_of_the_comparison(runs: tuple[RunDirectory, RunDirectory]) -> None:
    reader = page(*runs)
    given = [(run, build(run)) for run in runs]
    row = next(r for r in between.comparisons(given) if r["a"] == "llamacpp-base in late")
    data = json.loads(reader.scripts[0])["rows"]["between-greedy-1"]
    place = data["pair"].index("llamacpp-base in late / llamacpp-base in early")
    assert (data["ratio"][place], data["low"][place]) == (row["ratio"], row["interval"][0])
    shown = reader.table("Pairs", "0").cell("llamacpp-base in late / llamacpp-base in early", "to")
    assert shown[1] == row["interval"][1]
    rates = [cells[3][1] for cells in reader.table("Arms", "0").rows[1:3]]
    assert rates == [
        result["arms"][0]["modes"][0]["metrics"]["decode_tok_s"]["value"] for _, result in given
    ]
    assert reader.table("Conditions of llamacpp-base", "0").cell("hardware", "late")[0]


def test_other_conditions_are_marked_and_refused(tmp_path: Path) -> None:
    early = write_run(tmp_path / "early", (PLAIN,))
    late = write_run(tmp_path / "late", (PLAIN,), modes=[{**MODES[0], "temperature": 0.5}])
    reader = page(early, late)
    table = reader.table("Conditions of llamacpp-base", "0")
    assert [row[0][0] for row in table.rows[1:] if "≠" in row[0][0]] == ["sampling ≠"]
    assert "refused" in reader.words


def test_runs_that_share_nothing(tmp_path: Path) -> None:
    early = write_run(tmp_path / "a", (PLAIN,))
    assert several.NOTHING in page(early, write_run(tmp_path / "b", (ArmLike("x"),))).words


def test_hostile_names_are_text(tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path / name, (PLAIN, DSPARK), recipe=HOSTILE, recipe_text=f"x: {name}{HOSTILE}"
        )
        for name in ("a", "b")
    ]
    reader = page(*runs)
    assert reader.tags.count("script") == 3
    assert "img" not in reader.tags
    assert reader.handlers == []


def test_the_command_writes_the_page(
    runs: tuple[RunDirectory, RunDirectory], tmp_path: Path
) -> None:
    argv = ["report", *(str(run.path) for run in runs), "--format", "html"]
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", *argv],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "side-by-side.html\n")
    assert (tmp_path / "side-by-side.html").stat().st_size < 3_000_000
