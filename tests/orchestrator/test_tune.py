"""The best K: predicted on numbers with a known optimum, found on a real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.tune import Point, predict, probes

MUSEORCH = [sys.executable, "-m", "orchestrator.cli"]


def test_tau_is_the_sum_of_the_marginals_below_k() -> None:
    points = predict([0.8, 0.5, 0.2, 0.1], {1: 10.0, 4: 10.0})
    assert [p.acceptance_length for p in points] == pytest.approx([1.8, 2.3, 2.5, 2.6])
    assert max(points, key=lambda p: p.tok_s).draft_tokens == 4  # a step costs the same: all help


def test_a_step_between_two_measured_ones_is_interpolated() -> None:
    points = predict([0.8, 0.5, 0.2, 0.1], {1: 10.0, 2: 11.0, 4: 15.0})
    assert [p.step_ms for p in points] == pytest.approx([10, 11, 13, 15])
    assert [p.step_measured for p in points] == [True, True, False, True]
    assert points[1] == Point(2, 2.3, 11.0, True, 1000 * 2.3 / 11.0)
    assert max(points, key=lambda p: p.tok_s).draft_tokens == 2  # 180, 209, 192 and 173 tok/s


def test_only_what_lies_between_measured_k_is_predicted() -> None:
    assert [p.draft_tokens for p in predict([0.5] * 8, {3: 1.0, 5: 1.0})] == [3, 4, 5]


def test_probes_are_both_ends_and_the_middle() -> None:
    assert probes(15) == [1, 8, 15]
    assert probes(2) == [1, 2]
    assert probes(1) == [1]


def recipe(folder: Path, **arm: object) -> Path:
    data = {
        "schema": 1,
        "name": "tune",
        "model": "tiny-muse",
        "device": "cpu",
        "workload": {
            "prompts": "demo",
            "count": 6,
            "output_tokens": 32,
            "stop": "fixed",
            "modes": ["greedy"],
            "warmup": 1,
        },
        "serve": {"context_length": 1024, "threads": 1},
        "arms": [
            {"backend": "llamacpp"},
            {"backend": "llamacpp", "speculation": "dflash", "draft_tokens": 5, **arm},
        ],
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.mark.engine("llamacpp")
def test_tune_predicts_and_then_measures_on_a_real_engine(tmp_path: Path) -> None:
    command = [*MUSEORCH, "tune", str(recipe(tmp_path)), "--arm", "llamacpp-dflash", "--json"]
    done = subprocess.run(
        [*command, "--draft-tokens", "2,5", "--out", str(tmp_path / "out"), "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data == json.loads((tmp_path / "out" / "tune.json").read_text(encoding="utf-8"))
    (phase,) = data["phases"]
    assert [p["draft_tokens"] for p in phase["curve"]] == [2, 3, 4, 5]
    assert [p["step_measured"] for p in phase["curve"]] == [True, False, False, True]
    taus = [p["acceptance_length"] for p in phase["curve"]]
    assert 1 < taus[0] <= taus[1] <= taus[2] <= taus[3]
    best = max(phase["curve"], key=lambda p: p["tok_s"])
    assert phase["best"] == best["draft_tokens"]
    assert phase["measured_tok_s"] > 0
    assert phase["plain_tok_s"] > 0
    for folder in data["runs"]:
        result = json.loads((tmp_path / "out" / folder / "result.json").read_text("utf-8"))
        assert result["complete"]
    # What was predicted for K 2 out of the arm at K 5 is what the arm at K 2 did.
    result = json.loads((tmp_path / "out" / "curve" / "result.json").read_text("utf-8"))
    arm = next(one for one in result["arms"] if one["draft_tokens"] == 2)
    measured = arm["modes"][0]["metrics"]["acceptance_length"]["value"]
    assert taus[0] == pytest.approx(measured, rel=0.15)


@pytest.mark.engine("llamacpp")
def test_tune_says_what_it_cannot_do(tmp_path: Path) -> None:
    def errors(path: Path, arm: str, ks: str) -> str:
        done = subprocess.run(
            [*MUSEORCH, "tune", str(path), f"--arm={arm}", f"--draft-tokens={ks}", *out],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        return done.stderr

    out = ["--out", str(tmp_path / "out")]
    path = recipe(tmp_path)
    assert "Arms with one: llamacpp-dflash" in errors(path, "llamacpp-base", "1")
    assert "K 9 is above the arm's 5" in errors(path, "llamacpp-dflash", "9")
    assert "no list of numbers" in errors(path, "llamacpp-dflash", "two")
    path = recipe(tmp_path, acceptance={"length": 2})
    assert "nothing to tune" in errors(path, "llamacpp-dflash-simulated", "1")
    assert not (tmp_path / "out").exists()
