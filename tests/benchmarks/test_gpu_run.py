"""The loop over the GPU recipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.run import TASKS, Task, _run, compare, one, usual_s
from orchestrator.environments.engines import add
from orchestrator.job import prepare
from orchestrator.rundir import write_json
from tests.recipes_for_tests import recipe_data, write_recipe, write_server


def test_every_task_is_a_shipped_recipe_with_arms_on_its_engines() -> None:
    for task in TASKS:
        job = prepare(task.recipe)
        assert job.recipe.device == "cuda"
        assert {arm.backend for arm in job.arms} >= set(task.backends)


def turn(out: Path, arm: str, backend: str, ended: str, status: str = "ok") -> None:
    folder = out / "run" / "arms" / arm / "1"
    folder.mkdir(parents=True)
    facts = {"status": status, "started": "2026-12-01T00:00:00Z", "ended": ended}
    write_json(folder / "status.json", {**facts, "engine": {"backend": backend}})


def test_what_a_start_takes_is_known_only_once_one_was_timed(tmp_path: Path) -> None:
    assert usual_s(tmp_path, ["vllm"]) is None
    turn(tmp_path, "a", "vllm", "2026-12-01T00:04:00Z")
    turn(tmp_path, "b", "vllm", "2026-12-01T00:05:00Z")
    turn(tmp_path, "c", "vllm", "2026-12-01T09:00:00Z", status="failed")
    turn(tmp_path, "d", "llamacpp", "2026-12-01T00:00:20Z")
    assert usual_s(tmp_path, ["vllm"]) == 270
    assert usual_s(tmp_path, ["llamacpp", "vllm", "sglang"]) == 270, "the slowest"
    assert usual_s(tmp_path, ["sglang"]) is None


def test_a_run_that_was_begun_is_taken_up_again(tmp_path: Path) -> None:
    words = ["compare", "some/recipe", "--arms", "a", "--arms", "b"]
    assert compare("some/recipe", ["a", "b"], tmp_path) == [*words, "--out", str(tmp_path)]
    write_json(tmp_path / "run.json", {})
    assert compare("some/recipe", ["a", "b"], tmp_path) == [*words, "--resume", str(tmp_path)]


def test_why_a_task_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "home"))
    data = recipe_data(tmp_path, engines={})
    task = Task("small", str(write_recipe(tmp_path, data)), ("llamacpp", "vllm"))
    assert one(task, tmp_path, None, []) == "left out: no llamacpp or vllm for cpu here"
    add("fake", str(write_server(tmp_path)), server=True)
    turn(tmp_path, "a", "llamacpp", "2026-12-01T00:10:00Z")
    told = "left out: a start of llamacpp took 600 s, 60 s are left"
    assert one(task, tmp_path, 60.0, []) == told
    (tmp_path / "small-llamacpp").mkdir()
    write_json(tmp_path / "small-llamacpp" / "result.json", {"complete": True})
    assert one(task, tmp_path, 60.0, []) == "complete since before"


def test_what_runs_when_the_time_is_up_is_ended() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert _run(sleeping, 0.2) is None
    assert _run([sys.executable, "-c", "import sys; sys.exit(1)"], 60) == 1


def test_a_task_that_is_none_is_an_error_and_none_is_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.run", "--only", "iso"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("no task is called iso. Tasks: iso-512, ")
