"""A whole comparison on dummy weights, on a real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import orchestrator
from backends.errors import InputError
from orchestrator.job import prepare
from orchestrator.report.labels import DUMMY
from tests.recipes_for_tests import write_recipe

SCHEMA = Path(orchestrator.__file__).parent / "schemas" / "result.schema.json"
CURVE = [0.8, 0.5, 0.2, *[0.1] * 12]


def recipe(*arms: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": 1,
        "name": "dummy",
        "model": "tiny-muse",
        "device": "cpu",
        "weights": "dummy",
        "workload": {
            "prompts": {"random": 20},
            "count": 6,
            "output_tokens": 32,
            "stop": "fixed",
            "modes": ["greedy"],
            "warmup": 1,
        },
        "serve": {"context_length": 128, "threads": 1},
        "arms": list(arms),
        "order": {"bookend": False},
    }


def museorch(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", *argv],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.engine("llamacpp")
def test_plain_and_both_drafters_run_and_compare(tmp_path: Path) -> None:
    quant = {"backend": "llamacpp", "quantisation": "q4_k_m"}
    data = recipe(
        quant, {**quant, "speculation": ["dflash", "dspark"], "acceptance": {"simulate": CURVE}}
    )
    out = tmp_path / "out"
    done = museorch("compare", str(write_recipe(tmp_path, data)), "--out", str(out))
    assert done.returncode == 0, done.stderr
    result = json.loads((out / "result.json").read_text("utf-8"))
    jsonschema.validate(result, json.loads(SCHEMA.read_text("utf-8")))
    told = "simulated, length 3.7 by rates " + " ".join(map(str, CURVE))
    assert [arm["acceptance"] for arm in result["arms"]] == ["none", told, told]
    for arm in result["arms"]:
        assert arm["modes"][0]["problems"] == []
        assert arm["modes"][0]["conditions"]["weights"] == "dummy tiny-muse"
    assert [row["verdict"] == "refused" for row in result["comparisons"]] == [False] * 3
    assert result["audit"]["greedy"] == []
    for text in (done.stdout, (out / "report.md").read_text("utf-8")):
        assert DUMMY.split(":")[0] in text
        assert "Acceptance is simulated, length 3.7 by rates 0.8 0.5 0.2 0.1" in text


def test_a_drafter_of_dummy_weights_needs_simulated_acceptance(tmp_path: Path) -> None:
    data = recipe({"backend": "llamacpp", "speculation": "dflash"})
    with pytest.raises(InputError, match=r"yaml:\d+: arms\[0\].*has to be simulated"):
        prepare(str(write_recipe(tmp_path, data)))


def test_engines_are_told_to_make_up_their_values(tmp_path: Path) -> None:
    data = recipe({"backend": ["vllm", "sglang"]})
    data["device"] = "cuda"
    data["arms"].append(
        {**data["arms"][0], "speculation": "dspark", "acceptance": {"simulate": [*CURVE, 0.1]}}
    )
    for item in prepare(str(write_recipe(tmp_path, data))).planned:
        argv = item.plan.argv
        assert argv[argv.index("--load-format") + 1] == "dummy"
        drafts = "--speculative-draft-load-format" in argv
        assert drafts == (item.arm.id == "sglang-dspark-simulated")


def test_random_prompts_are_ordinary_ids_and_the_same_again(tmp_path: Path) -> None:
    data = recipe({"backend": "llamacpp"})
    first = prepare(str(write_recipe(tmp_path, data))).prompts
    assert [len(prompt.token_ids) for prompt in first] == [20] * 6
    assert {16 <= token < 1024 for prompt in first for token in prompt.token_ids} == {True}
    assert len({prompt.token_ids for prompt in first}) == 6
    data["workload"]["count"] = 9
    more = prepare(str(write_recipe(tmp_path, data))).prompts
    assert more[:6] == first, "a prompt does not depend on how many there are"
    data["workload"]["seed"] = 2
    assert prepare(str(write_recipe(tmp_path, data))).prompts[0] != first[0]
    data["workload"]["prompts"] = {"random": 97}
    with pytest.raises(InputError, match="97 tokens; with 32 output tokens it does not fit"):
        prepare(str(write_recipe(tmp_path, data)))


@pytest.mark.engine("llamacpp")
def test_up_serves_them_and_the_audit_does_not(tmp_path: Path) -> None:
    path = str(write_recipe(tmp_path, recipe({"backend": "llamacpp", "quantisation": "q8_0"})))
    up = museorch("up", path, "--detach", "--name", "dummy-weights-test")
    try:
        assert up.returncode == 0, up.stderr
        assert "q8_0 weights" in up.stdout
    finally:
        museorch("down", "dummy-weights-test")
    audit = museorch("audit", path)
    assert audit.returncode == 2
    assert "no distribution to audit" in audit.stderr
