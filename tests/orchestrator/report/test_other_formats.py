"""Markdown, the terminal, rows, and several runs."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from backends.errors import InputError
from orchestrator.report import between, markdown, several, terminal
from orchestrator.report.facts import load
from orchestrator.report.html import commands
from orchestrator.report.labels import DUMMY
from orchestrator.report.rows import metrics, samples, to_csv
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory
from tests.orchestrator.report.synthetic import (
    DSPARK,
    FAILED,
    MODES,
    OTHER_QUANT,
    PLAIN,
    PROMPTS,
    ArmLike,
    write_run,
)

HOSTILE = "=<b>|`x`\x1b[2J\u202e\n# head @you https://example.org"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, (PLAIN, DSPARK, OTHER_QUANT, FAILED))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return write_run(
        tmp_path_factory.mktemp("runs") / "hostile",
        (PLAIN, DSPARK, ArmLike("x", "vllm", failure=HOSTILE)),
        prompts=[f"{HOSTILE}{number}" for number in range(6)],
        recipe=HOSTILE,
        title=HOSTILE,
        modes=[{**MODES[0], "name": HOSTILE}],
    )


def museorch(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "orchestrator.cli", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def markdown_of(run: RunDirectory) -> str:
    return markdown.render(load(run, build(run)))


def test_markdown_says_the_answer_and_holds_the_numbers(run: RunDirectory) -> None:
    result = build(run)
    text = markdown_of(run)
    row = next(r for r in result["comparisons"] if r["ratio"] is not None)
    ratio = f"{row['ratio']:.2f}x as fast as plain llama.cpp here, faster"
    assert f"llama.cpp with DSpark is {ratio}" in text
    assert "vllm-base failed: vllm: the engine ended before it was ready" in text
    rate = result["arms"][0]["modes"][0]["metrics"]["decode_tok_s"]["value"]
    assert f"| llamacpp-base | — | {rate:,.1f} |" in text
    assert "\n\n—: no speculation" in text
    assert "    museorch compare recipe.yaml --out 'a run'" in text


def test_hostile_markdown_is_text(hostile: RunDirectory) -> None:
    text = markdown_of(hostile)
    assert "\x1b" not in text
    assert "\u202e" not in text
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    own = {"<details>", "</details>", "<summary>", "</summary>"}
    for token in tokens:
        for child in [token, *(token.children or [])]:
            assert child.type not in ("image", "link_open", "code_inline", "html_inline")
            if child.type == "html_block":
                assert any(child.content.startswith(tag) for tag in own)
                assert "<b>" not in child.content
    assert sum(token.tag == "h1" for token in tokens if token.type == "heading_open") == 1


def test_the_terminal_fits_80_columns_and_is_not_steered(
    run: RunDirectory, hostile: RunDirectory
) -> None:
    for one in (run, hostile):
        text = terminal.render(build(one))
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text
    assert "failed" in text


def test_the_terminal_ends_with_the_answer_and_cuts_no_name(tmp_path: Path) -> None:
    name = "llamacpp-q4_k_m-dflash-of-{}-by-rates"
    arms = [ArmLike(name.format(one), speculation="dflash") for one in ("prose", "agents")]
    text = terminal.render(build(write_run(tmp_path / "run", (PLAIN, *arms))))
    assert [line for line in text.splitlines() if line in {arm.id for arm in arms}] == [
        arm.id
        for arm in (*arms, *arms)  # a table for each mode
    ]
    answer = " ".join(text.partition("In short:")[2].split())
    assert answer.startswith("greedy, 1 at a time: llama.cpp with DFlash (")
    assert max(map(len, text.splitlines())) <= 80


def test_the_terminal_of_many_arms_stays_short(tmp_path: Path) -> None:
    arms = [ArmLike(f"llamacpp-{number}", speculation="dflash") for number in range(7)]
    run = write_run(tmp_path / "run", (PLAIN, *arms), prompts=PROMPTS[:6], modes=MODES[:1])
    result = build(run)
    text = terminal.render(result)
    pairs = len(result["comparisons"])
    assert f"\n{pairs - terminal.MOST} more comparisons are in report.md.\n" in text
    audited = len(result["audit"]["greedy"])
    assert f"\n  {audited} of {audited} pairs are equal on every prompt\n" in text
    assert len(text.splitlines()) < 80
    assert "\u00a0" not in text


@pytest.mark.parametrize(("count", "told"), [(2, 2), (4, 1)])
def test_the_terminal_says_what_disturbed(run: RunDirectory, count: int, told: int) -> None:
    result = build(run)
    warnings = result["arms"][0]["modes"][0]["warnings"]
    warnings[:] = [f"{'abcd'[number]} kept threads busy" for number in range(count)]
    text = " ".join(terminal.render(result).split())
    assert text.count("threads busy") == told
    assert (f"{count} signs that something else disturbed" in text) == (told < count)


def test_what_disturbed_all_phases_is_told_once_beside_the_drift(run: RunDirectory) -> None:
    result = build(run)
    arm = result["arms"][0]
    for mode, busy in zip(arm["modes"], ("4.4", "15.7"), strict=True):
        mode["warnings"].append(f"other processes kept {busy} of 16 threads busy")
    for row in result["drift"]:
        row["ratio"] = 0.999
    text = terminal.render(result)
    assert (
        f"? {arm['id']}, temperature, 1 at a time (likewise in 1 more): other processes kept 15.7 "
        "of 16 threads busy; run again, it decoded at 0.999x this" in " ".join(text.split())
    )
    assert [line[-3:] for line in text.splitlines() if line.startswith(f"{arm['id']} ")] == [
        "  ?"
    ] * 2


def test_rows_of_every_request(run: RunDirectory) -> None:
    rows = list(samples(run))
    assert len(rows) == (3 * 2 + 2) * 12  # three arms that ran, two modes, and the second turn
    result = build(run)
    mine = [r for r in rows if (r["arm"], r["mode"], r["turn"]) == ("llamacpp-base", "greedy", 1)]
    told = result["arms"][0]["modes"][0]["metrics"]["output_tokens"]["value"]
    assert sum(row["output_tokens"] for row in mine) == told
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [float(row["decode_tok_s"]) for row in read] == [row["decode_tok_s"] for row in rows]


def test_rows_of_every_metric(run: RunDirectory) -> None:
    result = build(run)
    rows = list(metrics("run", result))
    first = result["arms"][0]["modes"][0]["metrics"]
    assert [(row["metric"], row["value"]) for row in rows[: len(first)]] == [
        (name, metric["value"]) for name, metric in first.items()
    ]
    assert rows[len(first) * 2]["arm"] == "llamacpp-dspark"
    unknown = next(row for row in rows if row["value"] is None)
    assert unknown["reason"]


def test_two_runs_under_one_set_of_conditions_are_compared(tmp_path: Path) -> None:
    early = write_run(tmp_path / "early", (PLAIN, DSPARK))
    late = write_run(tmp_path / "late", (ArmLike("llamacpp-base", speed=400.0), DSPARK))
    runs = [(one, build(one)) for one in (early, late)]
    rows = {(row["a"], row["mode"]): row for row in between.comparisons(runs)}
    faster = rows["llamacpp-base in late", "greedy"]
    assert (faster["b"], faster["verdict"]) == ("llamacpp-base in early", "faster")
    assert faster["ratio"] == pytest.approx(2.0, rel=1e-3)
    assert rows["llamacpp-dspark in late", "greedy"]["verdict"] == "no difference shown"


def test_runs_under_other_conditions_are_refused(tmp_path: Path) -> None:
    early = write_run(tmp_path / "a" / "run", (PLAIN,))
    late = write_run(tmp_path / "b" / "run", (PLAIN,), modes=[{**MODES[0], "temperature": 0.5}])
    runs = [(one, build(one)) for one in (early, late)]
    (row,) = between.comparisons(runs)
    assert row["verdict"] == "refused"
    assert row["ratio"] is None
    assert [d["field"] for d in row["certificate"]["differences"]] == ["sampling"]
    text = several.text(runs)
    assert "llamacpp-base in run (2) against llamacpp-base in run (1) is refused" in " ".join(
        text.split()
    )
    assert max(map(len, text.splitlines())) <= 80


def test_side_by_side_says_first_what_was_not_real(tmp_path: Path) -> None:
    runs = [
        (one, build(one))
        for one in (
            write_run(tmp_path / name, (PLAIN,), weights=weights)
            for name, weights in (("a", "dummy toy"), ("b", "dummy toy"), ("c", "toy"))
        )
    ]
    for text in (several.text(runs), several.as_markdown(runs)):
        assert f"a, b: {DUMMY}" in " ".join(text.split())


def test_a_run_without_a_model_of_its_own_says_so_beside_the_claims(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN,), weights="dummy toy")
    done = museorch("claims", "check", str(run.path))
    assert " ".join(done.stdout.split()).endswith(f" can be compared with this run. {DUMMY}")


def test_a_run_that_was_started_as_a_module_tells_the_command(run: RunDirectory) -> None:
    facts = load(run, build(run))
    given = {"command": ["/somewhere/orchestrator/cli.py", "compare", "recipe.yaml"]}
    assert commands(replace(facts, run=given))[0] == "museorch compare recipe.yaml"


def test_runs_of_one_recipe_are_told_apart_in_the_terminal(tmp_path: Path) -> None:
    names = [f"20261201T0{hour}0040Z-tiny-muse-three-engines" for hour in (1, 2)]
    runs = [(one, build(one)) for one in (write_run(tmp_path / name, (DSPARK,)) for name in names)]
    text = several.text(runs)
    rows = [line.split()[:2] for line in text.splitlines() if line.startswith("  2026")]
    assert rows == [[name[:29], "4"] for name in (*names, *names)]
    assert max(map(len, text.splitlines())) <= 80


def test_runs_that_share_nothing(tmp_path: Path) -> None:
    runs = [
        (one, build(one))
        for one in (
            write_run(tmp_path / "a", (PLAIN,)),
            write_run(tmp_path / "b", (ArmLike("other"),)),
        )
    ]
    assert several.NOTHING in several.text(runs)
    assert several.NOTHING in several.as_markdown(runs)


@pytest.mark.parametrize("form", ["text", "md", "csv", "json"])
def test_the_command_prints_each_format(run: RunDirectory, form: str) -> None:
    done = museorch("report", str(run.path), "--format", form)
    assert done.returncode == 1, "an arm failed"
    assert "llamacpp-dspark" in done.stdout
    if form == "json":
        result: dict[str, Any] = json.loads(done.stdout)
        assert result == json.loads(run.result_file.read_text("utf-8"))


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DSPARK))
    done = museorch("report", str(run.path), "--format", "html")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (run.path / "report.html").stat().st_size > 500_000
    out = tmp_path / "metrics.csv"
    more = museorch(
        "report", str(run.path), "--format", "csv", "--rows", "metrics", "--out", str(out)
    )
    assert more.returncode == 0
    assert out.read_text("utf-8").startswith("run,arm,backend")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--rows", "metrics"), "--rows goes with --format csv or json"),
        (("--format", "md", "--out", "no/such/folder/x.md"), "No such file"),
    ],
)
def test_wrong_use_is_one_line(run: RunDirectory, args: tuple[str, ...], words: str) -> None:
    given = [arg.format(run=run.path) for arg in args]
    done = museorch("report", str(run.path), *given)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_no_run_directory() -> None:
    done = museorch("report", "no-such-run")
    assert done.returncode == 2
    assert done.stderr.startswith("museorch: no-such-run/run.json: no such file.")


def test_a_run_without_its_recipe(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN,))
    run.recipe_file.unlink()
    with pytest.raises(InputError, match=r"recipe\.yaml: no such file"):
        load(run, build(run))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_run_that_may_not_be_written(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DSPARK))
    run.path.chmod(0o500)
    try:
        done = museorch("report", str(run.path))
    finally:
        run.path.chmod(0o700)
    assert done.returncode == 0
    assert "is left as it was" in done.stderr
