"""The best K, predicted and then measured on a real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.commands.tune import _print
from orchestrator.comparing.tune import _cannot_simulate
from orchestrator.job import prepare

MUSEORCH = [sys.executable, "-m", "orchestrator.cli"]


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
    assert phase["steps_from"] == "simulated"
    assert [p["draft_tokens"] for p in phase["curve"]] == [2, 3, 4, 5]
    assert [p["step_measured"] for p in phase["curve"]] == [True, False, False, True]
    assert [p["tau_measured"] for p in phase["curve"]] == [False, False, False, True]
    best = max(phase["curve"], key=lambda p: p["tok_s"])
    assert phase["best"] == best["draft_tokens"]
    assert phase["measured_tok_s"] > 0
    assert phase["plain_tok_s"] > 0
    lines = done.stdout.splitlines()
    assert lines[1].startswith("Steps timed with simulated acceptance at K 2, 5;")
    assert [row.split()[0] for row in lines[3:7]] == ["2", "3", "4", "5"]
    assert [row for row in lines if row.endswith("best")] == [lines[phase["best"] + 1]]
    assert f"{phase['measured_tok_s']:.1f} measured" in done.stdout
    assert "The predicted " in done.stdout
    assert max(map(len, lines)) <= 80
    for folder in data["runs"]:
        result = json.loads((tmp_path / "out" / folder / "result.json").read_text("utf-8"))
        assert result["complete"]
    result = json.loads((tmp_path / "out" / "curve" / "result.json").read_text("utf-8"))
    assert [arm["id"] for arm in result["arms"]] == [
        "llamacpp-dflash-k5",
        "llamacpp-dflash-k2-simulated",
        "llamacpp-dflash-k5-simulated",
        "llamacpp-base",
    ]
    # The curve is made of what those arms did: steps of the simulated, tau of the real one.
    found = {arm["id"]: arm["modes"][0]["metrics"] for arm in result["arms"]}
    step = found["llamacpp-dflash-k2-simulated"]["step_time_ms"]["value"]
    assert phase["curve"][0]["step_ms"] == step
    tau = found["llamacpp-dflash-k5"]["acceptance_length"]["value"]
    assert phase["curve"][-1]["acceptance_length"] == pytest.approx(tau)
    (cost,) = result["verification"]
    assert [point["draft_tokens"] for point in cost["points"]] == [2, 5]
    assert cost["plain"] == "llamacpp-base"
    # llama.cpp tells how long it drafts, and both parts make up the step.
    for point in cost["points"]:
        assert 0 < point["draft_ms"] < point["step_ms"]
        assert point["draft_ms"] + point["target_ms"] == pytest.approx(point["step_ms"])
        assert point["interval"][0] <= point["step_ms"] <= point["interval"][1]


@pytest.mark.engine("vllm")
@pytest.mark.parametrize("plain", [3963.2, 1500.0])
def test_what_is_printed_says_what_held_and_whether_a_drafter_pays(
    plain: float, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = [
        {
            "draft_tokens": k,
            "acceptance_length": 1.6 + k / 10,
            "step_ms": 0.6 * k,
            "tok_s": rate,
            "tau_measured": k == 4,
            "step_measured": k != 2,
        }
        for k, rate in ((1, 2479.2), (2, 2455.3), (4, 802.1))
    ]
    printed = {
        "mode": "temperature",
        "concurrency": 1,
        "curve": curve,
        "best": 1,
        "against": 4,
        "predicted_tok_s": 2479.2,
        "measured_tok_s": 1718.8,
        "plain_tok_s": plain,
        "predicted_ratio": 3.09,
        "ratio": 2.94,
        "interval": [2.2, 4.0],
        "verdict": "faster",
        "reason": None,
        "held": True,
        "why_real": "This engine cannot simulate acceptance. " * 3,
    }
    _print("vllm-dflash", printed)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "The predicted ratio held." in text
    assert ("no K is expected to be faster" in " ".join(text.split())) is (plain > 2479.2)


def test_an_engine_that_cannot_simulate_is_told(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    path.write_text(path.read_text("utf-8").replace("llamacpp", "vllm"), encoding="utf-8")
    job = prepare(str(path))
    assert _cannot_simulate(job, job.arms[1]) == "vLLM cannot simulate acceptance on a CPU."


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
