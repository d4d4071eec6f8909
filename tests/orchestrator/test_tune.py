"""The best K: predicted on numbers with a known optimum, found on a real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.tune import Point, Probe, predict, probes

MUSEORCH = [sys.executable, "-m", "orchestrator.cli"]


def test_a_measured_k_is_what_was_measured() -> None:
    points = predict({1: Probe(10.0, (0.9,)), 3: Probe(12.0, (0.8, 0.5, 0.2))})
    assert points[0] == Point(1, 1.9, 10.0, True, 190.0)
    assert points[2] == Point(3, 2.5, 12.0, True, 1000 * 2.5 / 12)


def test_between_two_k_tau_follows_the_larger_ones_marginals() -> None:
    same = {1: Probe(10.0, (0.8,)), 4: Probe(10.0, (0.8, 0.5, 0.2, 0.1))}
    points = predict(same)
    assert [p.acceptance_length for p in points] == pytest.approx([1.8, 2.3, 2.5, 2.6])
    assert max(points, key=lambda p: p.tok_s).draft_tokens == 4  # a step costs the same: all help


def test_what_the_marginals_miss_at_the_smaller_k_is_made_up_in_proportion() -> None:
    points = predict({1: Probe(10.0, (0.98,)), 3: Probe(10.0, (0.8, 0.5, 0.2))})
    # They miss a tenth at K 1, nothing at K 3, so a twentieth at K 2.
    assert points[1].acceptance_length == pytest.approx(2.3 * 1.05)


def test_a_step_between_two_measured_ones_is_interpolated() -> None:
    marginal = (0.8, 0.5, 0.2, 0.1)
    steps = {1: 10.0, 2: 11.0, 4: 15.0}
    points = predict({k: Probe(step, marginal[:k]) for k, step in steps.items()})
    assert [p.step_ms for p in points] == pytest.approx([10, 11, 13, 15])
    assert [p.measured for p in points] == [True, True, False, True]
    assert max(points, key=lambda p: p.tok_s).draft_tokens == 2  # 180, 209, 192 and 173 tok/s


def test_only_what_lies_between_measured_k_is_predicted() -> None:
    points = predict({3: Probe(1.0, (0.5,) * 3), 5: Probe(1.0, (0.5,) * 5)})
    assert [p.draft_tokens for p in points] == [3, 4, 5]


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
    command = [*MUSEORCH, "tune", str(recipe(tmp_path)), "--arm", "llamacpp-dflash"]
    done = subprocess.run(
        [*command, "--draft-tokens", "2,5", "--out", str(tmp_path / "out"), "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "out" / "tune.json").read_text(encoding="utf-8"))
    (phase,) = data["phases"]
    assert [p["draft_tokens"] for p in phase["curve"]] == [2, 3, 4, 5]
    assert [p["measured"] for p in phase["curve"]] == [True, False, False, True]
    taus = [p["acceptance_length"] for p in phase["curve"]]
    assert 1 < taus[0] <= taus[1] <= taus[2] <= taus[3]
    best = max(phase["curve"], key=lambda p: p["tok_s"])
    assert phase["best"] == best["draft_tokens"]
    assert phase["measured_tok_s"] > 0
    assert phase["plain_tok_s"] > 0
    rows = done.stdout.splitlines()
    assert [row.split()[0] for row in rows[2:6]] == ["2", "3", "4", "5"]
    assert [row for row in rows if row.endswith("best")] == [rows[phase["best"]]]
    assert f"{phase['measured_tok_s']:.1f} measured" in done.stdout
    for folder in data["runs"]:
        result = json.loads((tmp_path / "out" / folder / "result.json").read_text("utf-8"))
        assert result["complete"]
    # The prediction at a measured K is what that arm did.
    result = json.loads((tmp_path / "out" / "curve" / "result.json").read_text("utf-8"))
    arm = next(one for one in result["arms"] if one["draft_tokens"] == 2)
    metrics = arm["modes"][0]["metrics"]
    assert taus[0] == pytest.approx(metrics["acceptance_length"]["value"])
    assert phase["curve"][0]["step_ms"] == metrics["step_time_ms"]["value"]


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
