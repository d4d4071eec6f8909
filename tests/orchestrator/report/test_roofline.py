"""Roofline, energy and start-up in every rendering, made anew from the run directory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.load import sample
from orchestrator.report import markdown, roofline, terminal
from orchestrator.report.facts import load
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory, read_json, write_json
from tests.orchestrator.report.reading import Reader, page
from tests.orchestrator.report.synthetic import DFLASH, PLAIN, TOKENS, write_run

SHIFT = 1_796_000_000 * 10**9
PROMPTS = tuple(f"p{number}" for number in range(40))
PHASE = ("greedy", 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """On a GPU that moves 1 TB/s and draws 500 W; a step reads 4 GB, and 1 GB for the drafter."""
    gpu = {"sm_mhz": {"min": 1, "median": 1, "max": 1}, "slowdowns": [], "power_w": 1.0}
    gpu["monotonic_to_unix_ns"] = SHIFT
    folder = tmp_path_factory.mktemp("runs") / "run"
    made = write_run(folder, (PLAIN, DFLASH), prompts=PROMPTS, gpu=gpu)
    machine = read_json(made.environment_file)
    machine["bandwidth"] = {"bytes_per_s": 1e12, "how": "copies", "seconds": [1.0]}
    write_json(made.environment_file, machine)
    for status in made.path.glob("arms/*/*/status.json"):
        drafted = 10**9 if "dflash" in str(status) else 0
        counted = {"step_bytes": {"target": 4 * 10**9, "drafter": drafted}}
        write_json(status, read_json(status) | counted)
        (status.parent / "gpu.csv").write_text(readings(status.parent), encoding="utf-8")
    return made


def readings(folder: Path) -> str:
    samples = sample.read(folder / "samples.jsonl")
    moments = [
        one.t_send_ns + (one.t_end_ns - one.t_send_ns) * n // 3 for one in samples for n in (1, 2)
    ]
    stamps = [datetime.fromtimestamp((SHIFT + moment) / 1e9, UTC) for moment in moments]
    shown = [stamp.strftime("%Y/%m/%d %H:%M:%S.%f")[:-3] for stamp in stamps]
    return "".join(f"{stamp}, 0, 1980, 500.00, 99, 64000, 0x0000000000000000\n" for stamp in shown)


def measured(result: dict[str, Any], arm: str) -> dict[str, Any]:
    (found,) = [one for one in result["arms"] if one["id"] == arm]
    return dict(found["modes"][0]["metrics"])


def test_numbers_follow_from_the_files(run: RunDirectory) -> None:
    metrics = measured(build(run), "llamacpp-base")
    step = metrics["step_time_ms"]["value"]
    assert metrics["roofline_share"]["value"] == pytest.approx(4 / step)
    assert metrics["power_w"]["value"] == pytest.approx(500)
    seconds = len(PROMPTS) * TOKENS / metrics["output_tok_s"]["value"]
    tokens = metrics["output_tokens"]["value"]
    assert metrics["energy_j_per_token"]["value"] == pytest.approx(500 * seconds / tokens, rel=0.01)
    assert metrics["gpu_memory_mib"]["value"] == 64000
    drafted = measured(build(run), "llamacpp-dflash")
    tau = drafted["acceptance_length"]["value"]
    assert drafted["ideal_speedup"]["value"] == pytest.approx(tau / 1.25)


def test_the_page_shows_them(run: RunDirectory) -> None:
    text, result = page(run)
    reader = Reader(text)
    share = measured(result, "llamacpp-dflash")["roofline_share"]["value"]
    shown, value = reader.table("Against the memory roofline", "0").cell(
        "llamacpp-dflash", "of memory's rate"
    )
    assert value == share
    assert shown == f"{100 * share:.1f} %"
    _, watts = reader.table("Power, energy and memory of the GPU", "0").cell(
        "llamacpp-base", "power (W)"
    )
    assert watts == pytest.approx(500)
    for told in ("Memory gave 1.00 TB/s here (copies)", "Start-up: llamacpp-base 1.5 s"):
        assert told in text


def test_markdown_and_terminal_say_it(run: RunDirectory) -> None:
    result = build(run)
    text = markdown.render(load(run, result))
    assert "Memory gave 1.00 TB/s here" in text
    assert "Power, energy and memory of the GPU" in text
    seen = " ".join(terminal.render(result).split())
    assert "share of memory's 1.00 TB/s: llamacpp-base" in seen
    assert "Energy for each output token" in seen
    assert " J at 500 W" in seen
    assert "Start-up: llamacpp-base 1.5 s, llamacpp-dflash 1.5 s." in seen


def test_what_is_not_known_leaves_no_section(tmp_path: Path) -> None:
    result = build(write_run(tmp_path / "run", (PLAIN, DFLASH)))
    assert not list(roofline.said(result, PHASE))
    assert not list(roofline.brief(result, PHASE))
    assert roofline.table(result, PHASE).rows == roofline.costs(result, PHASE).rows == ()
    metrics = measured(result, "llamacpp-base")
    assert metrics["power_w"]["reason"] == "no GPU in use"


def test_a_share_above_one_is_explained(run: RunDirectory) -> None:
    result = build(run)
    result["bandwidth"]["bytes_per_s"] = 1e9
    for arm in result["arms"]:
        arm["modes"][0]["metrics"]["roofline_share"]["value"] *= 1000
    assert any("stay in a cache" in line for line in roofline.said(result, PHASE))
