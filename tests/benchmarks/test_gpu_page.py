"""Pages of GPU measurements, out of results of synthetic runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.errors import InputError
from benchmarks.gpu.page import keep, write
from orchestrator.report.safe import markdown
from orchestrator.rundir import read_json, write_json
from tests.orchestrator.report.synthetic import DFLASH, FAILED, PLAIN, write_run

RATES = "0.84 0.65 0.49 0.38 0.25 0.17 0.12 0.08 0.06 0.04 0.03 0.02 0.02 0.01 0.01"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A GPU's folder with one result in it."""
    keep(write_run(tmp_path / "runs" / "iso").path, tmp_path / "m" / "gpu")
    return tmp_path / "m" / "gpu"


def changed(folder: Path, name: str, **fields: Any) -> None:
    (folder / name).mkdir(exist_ok=True)
    write_json(folder / name / "result.json", {**read_json(folder / "iso/result.json"), **fields})


def test_a_page_says_what_the_results_say(folder: Path) -> None:
    page, report = write(folder.parent)
    text, whole = (path.read_text(encoding="utf-8") for path in (page, report))
    assert (page, report) == (folder.with_suffix(".md"), folder / "iso.md")
    assert "[iso](gpu/iso/result.json)" in text
    result = read_json(folder / "iso/result.json")
    for arm in result["arms"]:
        rate = arm["modes"][0]["metrics"]["decode_tok_s"]["value"]
        assert f"| {markdown(arm['id'])} | greedy, 1 at a time | iso |" in text
        assert f"| {rate:,.1f} |" in text
    shown = [row for row in result["comparisons"] if row["ratio"] is not None]
    assert shown
    for row in shown:
        low, high = row["interval"]
        assert f"| {row['ratio']:.2f} | {low:.2f} | {high:.2f} |" in text
        assert f"95 % interval {low:.2f} to {high:.2f}" in whole
    assert len(result["comparisons"]) == text.count(" | matched |")


def test_the_best_k_is_where_steps_are_still_cheap(folder: Path) -> None:
    result = read_json(folder / "iso/result.json")
    drafted = next(arm for arm in result["arms"] if arm["speculation"] == "dflash")
    drafted["acceptance"] = f"simulated, length 4.17 by rates {RATES}"
    steps = {1: 10.0, 8: 11.0, 9: 30.0, 15: 31.0}
    curve = {
        "backend": "llamacpp",
        "speculation": "dflash",
        "mode": "greedy",
        "concurrency": 1,
        "acceptance": "simulated",
        "plain": "llamacpp-base",
        "plain_ms": 9.0,
        "points": [
            {"arm": f"k{k}", "draft_tokens": k, "step_ms": ms, "interval": None, "steps": 9}
            | {"draft_ms": None, "target_ms": None}
            for k, ms in steps.items()
        ],
        "line": None,
        "draft_fixed_ms": None,
        "reason": "a step's time is no line in K",
    }
    changed(folder, "iso", arms=result["arms"], verification=[curve])
    page, _ = write(folder.parent)
    rows = page.read_text(encoding="utf-8").split("## Which K is best")[1].splitlines()
    (row,) = [line for line in rows if line.startswith("| iso | llama.cpp | greedy")]
    assert "| DFlash, 4.17 a step | 8 |" in row
    assert row.endswith("| 111.1 |")


def test_claims_about_the_same_hardware_say_what_differs(folder: Path) -> None:
    result = read_json(folder / "iso/result.json")
    for arm in result["arms"]:
        for mode in arm["modes"]:
            mode["conditions"]["hardware"] = "1 x NVIDIA H200, driver 580, 700.00 W"
    changed(folder, "iso", arms=result["arms"])
    page, _ = write(folder.parent)
    rows = page.read_text(encoding="utf-8").split("## Published claims")[1].splitlines()
    (row,) = [line for line in rows if line.startswith("| h200-vllm-terminal-bench |")]
    assert "model, engine" in row
    assert row.endswith("| — |"), "no numbers side by side"
    assert not [line for line in rows if line.startswith("| rtx")]


def test_steps_that_published_rates_imply_stand_beside_those_measured(folder: Path) -> None:
    result = read_json(folder / "iso/result.json")
    for arm in result["arms"]:
        for mode in arm["modes"]:
            mode["conditions"] |= {
                "hardware": "1 x NVIDIA H200, driver 580, 700.00 W",
                "backend": "vllm",
                "quantisation": "bf16",
            }
    changed(folder, "iso", arms=result["arms"])
    page, _ = write(folder.parent)
    text = page.read_text(encoding="utf-8")
    drafted = next(arm for arm in result["arms"] if arm["speculation"] == "dflash")
    step = drafted["modes"][0]["metrics"]["step_time_ms"]["value"]
    published = "h200-vllm-humaneval-greedy | dflash 258.1 tok/s, 4.85 tokens/step"
    assert f"| {published} | 18.8 | iso, {drafted['id']}, greedy | {step:.1f} |" in text
    assert "h200-sglang-humaneval | none 65.1 tok/s | 15.4" not in text, "another engine"


def test_a_failed_arm_is_told_without_the_machines_paths(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "x", (PLAIN, DFLASH, FAILED)).path
    status = run / "arms" / FAILED.id / "1" / "status.json"
    told = f"it ended. Its log: {run}/arms/vllm-base/1/server.log"
    write_json(status, {**read_json(status), "reason": told})
    path = keep(run, tmp_path / "m" / "gpu")
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert json.loads(path.read_text("utf-8"))["arms"][2]["reason"].endswith(
        "Its log: arms/vllm-base/1/server.log"
    )


def test_what_is_no_whole_result_gives_no_page(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no GPU was measured yet"):
        list(write(tmp_path / "empty"))
    changed(folder, "more", hardware="another")
    with pytest.raises(InputError, match="several machines"):
        list(write(folder.parent))
    changed(folder, "more", complete=False)
    with pytest.raises(InputError, match=r"more/result\.json: incomplete"):
        list(write(folder.parent))
    changed(folder, "more", drift="none")
    with pytest.raises(InputError, match=r"more/result\.json: \$\.drift: no result"):
        list(write(folder.parent))
    assert not folder.with_suffix(".md").exists()
