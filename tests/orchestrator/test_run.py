"""The flow from recipe to result, on a fake engine that behaves and misbehaves.

That real engines work is shown in tests/test_real_engines.py, not here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

import orchestrator
from orchestrator.load.sample import read
from tests.fakes import eventually
from tests.recipes_for_tests import recipe_data, write_recipe

SCHEMA = json.loads(
    (Path(orchestrator.__file__).parent / "schemas" / "result.schema.json").read_text("utf-8")
)
MUSEORCH = [sys.executable, "-m", "orchestrator.cli"]


def compare(recipe: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MUSEORCH, "compare", str(recipe), "--out", str(out), *more],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def result_of(out: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    jsonschema.validate(result, SCHEMA)
    return result


def leftovers(marker: Path) -> list[psutil.Process]:
    """Processes that have `marker` in their arguments and are not about to be collected."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if alive and any(str(marker) in word for word in words):
            found.append(process)
    return found


def with_drafter_flags(folder: Path, flags: str, **changes: Any) -> Path:
    data = recipe_data(folder, **changes)
    data["arms"][1]["env"]["FAKE_ENGINE"] += f" {flags}"
    return write_recipe(folder, data)


def test_a_comparison_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = compare(write_recipe(tmp_path, recipe_data(tmp_path)), out)
    assert done.returncode == 0, done.stderr
    result = result_of(out)
    assert result["complete"]
    assert [arm["status"] for arm in result["arms"]] == ["ok", "ok"]
    base, drafter = (arm["modes"][0] for arm in result["arms"])
    # Accepted drafts come as 3, 0, 2 a step: 12 tokens are 1 + 4 + 1 + 3 + 3, the last one cut.
    assert drafter["metrics"]["acceptance_length"]["value"] == pytest.approx(
        1 + drafter["speculation"]["accepted"] / drafter["speculation"]["steps"]
    )
    assert base["metrics"]["acceptance_length"] == {
        "value": None,
        "unit": "tokens/step",
        "n": 0,
        "reason": "no speculation",
    }
    assert base["metrics"]["output_tokens"]["value"] == 6 * 12
    assert drafter["speculation"]["drafted"] > 0
    (pair,) = result["comparisons"]
    assert (pair["a"], pair["b"]) == ("llamacpp-dflash", "llamacpp-base")
    assert pair["certificate"]["matched"]
    assert pair["ratio"] == pytest.approx(
        pair["factors"]["tau"] * pair["factors"]["step_time"] * pair["factors"]["remainder"]
    )
    assert [row["identical"] for row in result["audit"]["greedy"]] == [6, 6]
    assert result["drift"][0]["arm"] == "llamacpp-base"
    assert not leftovers(tmp_path)
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_report_makes_the_same_result_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare(write_recipe(tmp_path, recipe_data(tmp_path)), out)
    before = result_of(out)
    (out / "result.json").unlink()
    subprocess.run([*MUSEORCH, "report", str(out)], check=True, capture_output=True)
    assert result_of(out) == before


def test_an_engine_that_dies_fails_its_arm_only(tmp_path: Path) -> None:
    recipe = with_drafter_flags(tmp_path, "--die-after 40 --log 'ERROR: out of imaginary memory'")
    out = tmp_path / "out"
    done = compare(recipe, out)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    result = result_of(out)
    states = {arm["id"]: (arm["status"], arm["reason"]) for arm in result["arms"]}
    assert states["llamacpp-base"] == ("ok", None)
    assert states["llamacpp-dflash"][0] == "failed"
    assert "imaginary memory" in str(states["llamacpp-dflash"][1])
    assert result["complete"]
    assert not leftovers(tmp_path)


def test_an_engine_that_does_not_start_says_why(tmp_path: Path) -> None:
    recipe = with_drafter_flags(tmp_path, "--fail-start 3 --log 'ERROR: no such imaginary file'")
    done = compare(recipe, tmp_path / "out")
    assert done.returncode == 1
    (arm,) = [a for a in result_of(tmp_path / "out")["arms"] if a["status"] == "failed"]
    assert "no such imaginary file" in arm["reason"]


def test_a_drafter_that_is_never_accepted_is_no_speed_result(tmp_path: Path) -> None:
    data = recipe_data(tmp_path)
    for arm in data["arms"]:
        arm["env"] = {"FAKE_ENGINE": "--accept 0 --draft-tokens 7 --delay 0.002"}
    out = tmp_path / "out"
    done = compare(write_recipe(tmp_path, data), out)
    (pair,) = result_of(out)["comparisons"]
    assert pair["verdict"] == "refused"
    assert pair["ratio"] is None
    assert "hardly ever accepted" in pair["reason"]
    assert "hardly ever accepted" in " ".join(done.stdout.split())


def test_ctrl_c_keeps_what_was_measured_and_resume_finishes_it(tmp_path: Path) -> None:
    recipe = with_drafter_flags(tmp_path, "--delay 0.1")
    out = tmp_path / "out"
    running = subprocess.Popen(
        [*MUSEORCH, "compare", str(recipe), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    samples = out / "arms" / "llamacpp-dflash" / "1" / "samples.jsonl"
    assert eventually(lambda: samples.exists() and samples.stat().st_size > 0, 60)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130, errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert not leftovers(tmp_path)
    result = result_of(out)
    assert not result["complete"]
    assert [arm["status"] for arm in result["arms"]] == ["ok", "interrupted"]
    kept = (out / "arms" / "llamacpp-base" / "1" / "samples.jsonl").read_bytes()

    done = subprocess.run(
        [*MUSEORCH, "compare", str(recipe), "--resume", str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert result_of(out)["complete"]
    assert (out / "arms" / "llamacpp-base" / "1" / "samples.jsonl").read_bytes() == kept


def test_killed_museorch_leaves_nothing_running(tmp_path: Path) -> None:
    recipe = with_drafter_flags(tmp_path, "--delay 0.2")
    out = tmp_path / "out"
    with subprocess.Popen(
        [*MUSEORCH, "compare", str(recipe), "--out", str(out), "--quiet"]
    ) as running:
        samples = out / "arms" / "llamacpp-dflash" / "1" / "samples.jsonl"
        assert eventually(lambda: samples.exists() and samples.stat().st_size > 0, 60)
        running.kill()
    assert eventually(lambda: not leftovers(tmp_path), 20)
    assert len(read(samples)) > 0
    subprocess.run([*MUSEORCH, "report", str(out)], check=False, capture_output=True)
    assert not result_of(out)["complete"]


def test_another_recipe_cannot_resume_a_run(tmp_path: Path) -> None:
    data = recipe_data(tmp_path)
    out = tmp_path / "out"
    compare(write_recipe(tmp_path, data), out)
    data["workload"]["output_tokens"] = 13
    done = subprocess.run(
        [*MUSEORCH, "compare", str(write_recipe(tmp_path, data)), "--resume", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "differs from this start in workload" in done.stderr


def test_a_port_in_use_stops_before_anything_starts(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        data = recipe_data(tmp_path, serve={"context_length": 64, "port": port})
        done = compare(write_recipe(tmp_path, data), tmp_path / "out")
    assert done.returncode == 2
    assert f"port {port} is in use" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_output_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").touch()
    done = compare(write_recipe(tmp_path, recipe_data(tmp_path)), out)
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


def test_secrets_of_the_environment_reach_no_file(tmp_path: Path) -> None:
    secret = "hf_0123456789abcdefghijABCDEFGHIJ"
    out = tmp_path / "out"
    subprocess.run(
        [*MUSEORCH, "compare", str(write_recipe(tmp_path, recipe_data(tmp_path))), "--out", out],
        env={**os.environ, "HF_TOKEN": secret, "OPENAI_API_KEY": secret},
        check=True,
        capture_output=True,
    )
    for path in out.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_bench_runs_one_arm(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, recipe_data(tmp_path))
    out = tmp_path / "out"
    subprocess.run(
        [*MUSEORCH, "bench", str(recipe), "--arm", "llamacpp-dflash", "--out", str(out)],
        check=True,
        capture_output=True,
    )
    assert [arm["id"] for arm in result_of(out)["arms"]] == ["llamacpp-dflash"]
    assert result_of(out)["complete"]


def test_arms_are_chosen_by_pattern(tmp_path: Path) -> None:
    data = recipe_data(tmp_path)
    data["arms"].append({**data["arms"][1], "id": "other"})
    recipe, out = write_recipe(tmp_path, data), tmp_path / "out"
    assert compare(recipe, out, "--arms", "llamacpp-dfl*", "--arms", "other").returncode == 0
    result = result_of(out)
    assert [arm["id"] for arm in result["arms"]] == ["llamacpp-dflash", "other"]
    assert result["complete"]
    turns = [path.parent.parent.name for path in out.glob("arms/*/*/status.json")]
    assert sorted(turns) == ["llamacpp-dflash", "llamacpp-dflash", "other"]
    done = compare(recipe, tmp_path / "none", "--arms", "vllm-*")
    assert done.returncode == 2
    assert 'no arm is called "vllm-*"' in done.stderr


def test_a_sweep_on_the_command_line_takes_the_place_of_the_recipes(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, recipe_data(tmp_path, order={"bookend": False}))
    out = tmp_path / "out"
    compare(recipe, out, "--concurrency", "1,3")
    result = result_of(out)
    for arm in result["arms"]:
        assert [mode["concurrency"] for mode in arm["modes"]] == [1, 3]
        for mode in arm["modes"]:
            assert mode["metrics"]["output_tok_s"]["value"] > 0  # all requests together
            assert mode["metrics"]["decode_tok_s"]["value"] > 0  # what each of them sees
    plan = json.loads((out / "plan.json").read_text("utf-8"))
    argv = plan[0]["argv"]
    assert argv[argv.index("--parallel") + 1] == "3"
    for words, told in (("2,two", "no list of numbers"), ("2,2", "each may be given once")):
        done = compare(recipe, tmp_path / "other", "--concurrency", words)
        assert done.returncode == 2
        assert done.stderr.startswith("museorch: --concurrency: ")
        assert told in done.stderr
    assert not (tmp_path / "other").exists()


def test_time_is_monotonic_between_samples(tmp_path: Path) -> None:
    out = tmp_path / "out"
    began = time.monotonic_ns()
    compare(write_recipe(tmp_path, recipe_data(tmp_path)), out)
    samples = read(out / "arms" / "llamacpp-base" / "1" / "samples.jsonl")
    assert began < samples[0].t_send_ns
    for sample in samples:
        times = [sample.t_send_ns, *(t for t, _ in sample.chunks), sample.t_end_ns]
        assert times == sorted(times)
