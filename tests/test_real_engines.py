"""The demo on the real engines, shortened. This is the proof that the backends work."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
import yaml

from orchestrator.inputs.models import RECIPES
from orchestrator.load import sample
from orchestrator.load.sample import Sample
from tests.fakes import eventually
from tests.orchestrator.test_run import MUSEORCH, SCHEMA, leftovers

pytestmark = [pytest.mark.engine("llamacpp"), pytest.mark.engine("vllm")]


def shortened(folder: Path, **changes: Any) -> Path:
    recipe = yaml.safe_load((RECIPES / "tiny-muse" / "demo.yaml").read_text(encoding="utf-8"))
    recipe["workload"].update(count=24)
    recipe.update(changes)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory."""
    folder = tmp_path_factory.mktemp("demo")
    out = folder / "out"
    # From a folder of its own and with a relative --out: engines run elsewhere.
    done = subprocess.run(
        [*MUSEORCH, "compare", str(shortened(folder)), "--out", "out"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not leftovers(out)
    return out


@pytest.fixture(scope="module")
def result(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    return found


def tau(result: dict[str, Any], arm: str, mode: str) -> float:
    (found,) = [a for a in result["arms"] if a["id"] == arm]
    (phase,) = [m for m in found["modes"] if m["mode"] == mode]
    value: float = phase["metrics"]["acceptance_length"]["value"]
    return value


def audit(result: dict[str, Any], a: str, b: str) -> dict[str, Any]:
    (row,) = [r for r in result["audit"]["greedy"] if (r["a"], r["b"]) == (a, b)]
    return dict(row)


def test_every_arm_ran_in_full(result: dict[str, Any]) -> None:
    assert result["complete"]
    assert [arm["status"] for arm in result["arms"]] == ["ok"] * 5
    for arm in result["arms"]:
        assert [mode["mode"] for mode in arm["modes"]] == ["greedy", "temperature"]
        for mode in arm["modes"]:
            assert mode["failed"] == 0
            assert mode["problems"] == []
            assert mode["metrics"]["output_tokens"]["value"] == 24 * 128


@pytest.mark.parametrize(
    ("drafted", "plain"),
    [
        ("llamacpp-dflash", "llamacpp-base"),
        ("llamacpp-dspark", "llamacpp-base"),
        ("vllm-dflash", "vllm-base"),
    ],
)
def test_greedy_output_with_a_drafter_is_plain_output(
    result: dict[str, Any], drafted: str, plain: str
) -> None:
    row = audit(result, drafted, plain)
    assert row["identical"] >= 0.95 * row["prompts"], row["divergences"]


def test_where_outputs_part_both_tokens_were_nearly_as_likely(result: dict[str, Any]) -> None:
    """In nats, as the engines tell it: bf16 turns no more than near-ties."""
    told = [d["margin"] for row in result["audit"]["greedy"] for d in row["divergences"]]
    assert told
    assert {margin["reason"] for margin in told} == {None}
    assert max(abs(margin["value"]) for margin in told) < 0.5


def test_engines_accept_alike(out: Path, result: dict[str, Any]) -> None:
    """The same drafts on the same text: a difference is a fault of an engine, not noise."""
    llama, vllm = (tau(result, f"{name}-dflash", "greedy") for name in ("llamacpp", "vllm"))
    assert llama == pytest.approx(vllm, rel=0.05)
    row = audit(result, "vllm-dflash", "llamacpp-dflash")
    assert row["identical"] >= row["prompts"] // 3
    ours, theirs = (greedy_samples(out, f"{name}-dflash") for name in ("llamacpp", "vllm"))
    same = [p for p in ours if ours[p].token_ids == theirs[p].token_ids]
    assert len(same) == row["identical"]
    off = [passes(ours[p]) - passes(theirs[p]) for p in same]
    one_percent = 0.01 * sum(passes(ours[p]) for p in same)
    # Or two standard errors: rounding goes either way from one prompt to the next, a fault one way.
    assert abs(sum(off)) <= max(one_percent, 2 * math.hypot(*off)), off


def greedy_samples(out: Path, arm: str) -> dict[str, Sample]:
    """An arm's greedy samples by prompt."""
    samples = sample.read(out / "arms" / arm / "1" / "samples.jsonl")
    return {one.prompt_id: one for one in samples if one.mode == "greedy"}


def passes(one: Sample) -> int:
    assert one.server is not None
    assert one.server.steps is not None
    return one.server.steps


def test_dspark_accepts_more_than_dflash(result: dict[str, Any]) -> None:
    assert tau(result, "llamacpp-dspark", "greedy") > 1.15 * tau(
        result, "llamacpp-dflash", "greedy"
    )


@pytest.mark.parametrize("arm", ["llamacpp-dflash", "llamacpp-dspark", "vllm-dflash"])
def test_sampled_acceptance_is_real_and_below_greedy(result: dict[str, Any], arm: str) -> None:
    assert 1.5 < tau(result, arm, "temperature") < tau(result, arm, "greedy")


def test_across_engines_only_what_matches_gets_a_ratio(result: dict[str, Any]) -> None:
    pairs = {(c["a"], c["b"], c["mode"]): c for c in result["comparisons"]}
    assert pairs["vllm-base", "llamacpp-base", "greedy"]["certificate"]["matched"]
    sampled = pairs["vllm-dflash", "llamacpp-dflash", "temperature"]
    assert sampled["verdict"] == "refused"
    assert [d["field"] for d in sampled["certificate"]["differences"]] == ["verification"]


def test_patches_are_recorded_with_hashes(result: dict[str, Any]) -> None:
    (arm,) = [a for a in result["arms"] if a["id"] == "vllm-dflash"]
    assert {patch["id"] for patch in arm["patches"]} >= {"vllm-v1-wrapper", "vllm-cpu-expand"}
    for patch in arm["patches"]:
        for file in patch["files"]:
            assert len(file["before"]) == len(file["after"]) == 64
            assert file["before"] != file["after"]


def test_a_killed_engine_fails_its_arm_and_the_others_finish(tmp_path: Path) -> None:
    victim = "llama-server"
    arms = [{"backend": "llamacpp", "speculation": ["none", "dflash"]}]
    workload = {"prompts": "demo", "count": 12, "output_tokens": 256, "modes": ["greedy"]}
    recipe = shortened(tmp_path, arms=arms, workload={**workload, "stop": "fixed"})
    out = tmp_path / "out"
    running = subprocess.Popen(
        [*MUSEORCH, "compare", str(recipe), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    samples = out / "arms" / "llamacpp-dflash" / "1" / "samples.jsonl"
    assert eventually(lambda: samples.exists() and samples.stat().st_size > 0, 120)
    (engine,) = _engines(victim, out)
    os.kill(engine, signal.SIGKILL)
    stdout, stderr = running.communicate(timeout=120)
    assert running.returncode == 1, stdout + stderr
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    states = {arm["id"]: arm["status"] for arm in result["arms"]}
    assert states == {"llamacpp-base": "ok", "llamacpp-dflash": "failed"}
    assert "signal 9" in next(a["reason"] for a in result["arms"] if a["status"] == "failed")
    assert not _engines(victim, out)


def _engines(name: str, out: Path) -> list[int]:
    """Pids of the engine itself, started for `out`; its guard has other arguments first."""
    found = []
    for process in psutil.process_iter(["name", "cwd", "pid"]):
        if process.info["name"] == name and str(process.info["cwd"]).startswith(str(out)):
            found.append(int(process.info["pid"]))
    return found
