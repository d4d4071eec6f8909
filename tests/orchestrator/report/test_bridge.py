"""Splits and quality in every form of a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import orchestrator
from orchestrator.report import bridge, html, markdown, terminal
from orchestrator.report.facts import load
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory, read_json, write_json
from tests.orchestrator.report.synthetic import DFLASH, PLAIN, ArmLike, write_run

PHASE = ("greedy", 1)
SCHEMA = read_json(Path(orchestrator.__file__).parent / "schemas" / "result.schema.json")
VLLM = ArmLike("vllm-base", "vllm", speed=180.0)
SMALL = ArmLike("llamacpp-base-q4_k_m", speed=320.0, quantisation="q4_k_m")
QUALITY = {
    "text": "quality.txt",
    "text_sha256": "0" * 64,
    "reference": "bf16",
    "reason": None,
    "rows": [
        {
            "quantisation": name,
            "bytes": size,
            "positions": 255,
            "perplexity": perplexity,
            "top1_agreement": share,
            "divergence": nats,
        }
        for name, size, perplexity, share, nats in (
            ("bf16", 6_000_000, 30.5, 1.0, 0.0),
            ("q4_k_m", 1_900_000, 34.25, 0.8125, 0.125),
        )
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    folder = tmp_path_factory.mktemp("bridge") / "run"
    run = write_run(folder, (VLLM, PLAIN, DFLASH, SMALL))
    facts = read_json(run.run_file)
    # A synthetic vLLM does not tell its context.
    allow = ["quantisation", "drafter", "context_per_slot"]
    write_json(run.run_file, {**facts, "allow": allow})
    write_json(run.quality_file, QUALITY)
    return run


@pytest.fixture(scope="module")
def result(run: RunDirectory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(build(run)))
    jsonschema.validate(found, SCHEMA)
    return found


def test_a_split_is_in_every_form_and_claims_no_speedup(
    run: RunDirectory, result: dict[str, Any]
) -> None:
    (row,) = [r for r in result["bridges"] if (r["mode"], r["concurrency"]) == PHASE]
    whole, engine, quantisation = (row[name]["ratio"] for name in bridge.PARTS)
    assert whole == pytest.approx(320 / 180, rel=0.1)
    assert whole == pytest.approx(engine * quantisation)
    (said,) = bridge.sentences(result, PHASE)
    assert f"split at llamacpp-base: {whole:.2f}x = {engine:.2f} engine (" in said
    assert f"x {quantisation:.2f} quantisation (" in said
    assert said.endswith("no speed-up claim")
    assert "split at llamacpp-base" in " ".join(terminal.render(result).split())
    facts = load(run, result)
    for text in (markdown.render(facts), html.render(facts)):
        assert "Engine and quantisation, apart" in text
        assert "no speed-up of anything" in text


def test_quality_stands_beside_speed_and_acceptance(
    run: RunDirectory, result: dict[str, Any]
) -> None:
    table = bridge.quality(result, PHASE)
    names = table.columns
    rows = {row[1].text: dict(zip(names, row, strict=True)) for row in table.rows}
    assert [row[0].text for row in table.rows] == ["llama.cpp", "llama.cpp"]
    assert rows["q4_k_m"]["perplexity"].value == 34.25
    assert rows["q4_k_m"]["top-1"].text == "81.2 %"
    assert rows["q4_k_m"]["plain decode rate (tok/s)"].value == pytest.approx(320, rel=0.1)
    assert rows["bf16"]["acceptance length, DFlash"].value is not None
    assert rows["q4_k_m"]["acceptance length, DFlash"].why == "no such arm"
    assert "255 positions of quality.txt" in str(table.note)
    facts = load(run, result)
    for text in (markdown.render(facts), html.render(facts)):
        assert "Quality beside speed, by quantisation" in text


def test_what_was_not_measured_says_so(result: dict[str, Any]) -> None:
    table = bridge.quality({**result, "quality": None}, PHASE)
    assert {row[3].why for row in table.rows} == {"not measured in this run"}
    failed = {**QUALITY, "rows": [], "reason": "the server ended"}
    table = bridge.quality({**result, "quality": failed}, PHASE)
    assert {row[3].why for row in table.rows} == {"the server ended"}
    assert table.note is None


def test_a_run_of_one_quantisation_has_neither(tmp_path: Path) -> None:
    result = build(write_run(tmp_path / "run", (VLLM, PLAIN, DFLASH)))
    assert result["bridges"] == []
    assert result["quality"] is None
    assert not bridge.quality(result, PHASE).rows


def test_a_refused_split_gives_its_reason(result: dict[str, Any]) -> None:
    none = {"whole": None, "engine": None, "quantisation": None}
    (row,) = [r for r in result["bridges"] if (r["mode"], r["concurrency"]) == PHASE]
    refused = {**result, "bridges": [{**row, **none, "reason": "conditions differ: kv_dtype"}]}
    (said,) = bridge.sentences(refused, PHASE)
    assert said.endswith("is not split: conditions differ: kv_dtype")
    (cells,) = bridge.splits(refused, PHASE).rows
    assert cells[0].why == "conditions differ: kv_dtype"
    assert cells[2].value is None
