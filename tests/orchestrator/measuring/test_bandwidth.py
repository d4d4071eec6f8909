"""Bandwidth of this machine's memory, and how a GPU's is asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from orchestrator.measuring import bandwidth
from orchestrator.planning.plan import PlannedArm
from orchestrator.rundir import RunDirectory, read_json, write_json

TORCH = """
import json, os, sys
if os.environ.get("CUDA_VISIBLE_DEVICES") != "2": sys.exit("another GPU")
print("a warning of a library")
print(json.dumps({"bytes": 1000, "seconds": [2e-9, 1e-9, 4e-9], "with": "NVIDIA H200, torch 2"}))
"""


def interpreter(folder: Path, script: str) -> str:
    """A stand-in for a Python that has torch: it answers whatever it is given."""
    (folder / "answer.py").write_text(script, encoding="utf-8")
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} {folder}/answer.py\n")
    path.chmod(0o755)
    return str(path)


def test_memory_of_this_machine() -> None:
    found = bandwidth.on_cpu(1)
    assert 1e8 < found["bytes_per_s"] < 1e13
    assert "1 threads" in found["how"]


def test_the_gpu_of_the_arms_is_measured(tmp_path: Path) -> None:
    python = interpreter(tmp_path, TORCH)
    found = bandwidth.on_gpu(iter([("/no/python", {}), (python, {"CUDA_VISIBLE_DEVICES": "2"})]))
    assert found["bytes_per_s"] == pytest.approx(2e12)
    assert found["how"].endswith("best of 3: NVIDIA H200, torch 2")


def test_an_interpreter_without_torch_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = bandwidth.on_gpu(iter([(sys.executable, {})]))
    assert found["bytes_per_s"] is None
    assert found["reason"].endswith("No module named 'torch'")
    assert "no interpreter with torch" in bandwidth.on_gpu(iter(()))["reason"]


def test_it_is_measured_once_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path)
    write_json(run.environment_file, {"platform": "x"})
    none: list[PlannedArm] = []
    bandwidth.keep(run, none, "cpu", 1)
    first = read_json(run.environment_file)
    monkeypatch.setattr(bandwidth, "CPU_BYTES", 1)
    bandwidth.keep(run, none, "cpu", 2)
    assert read_json(run.environment_file) == first
    assert json.loads(json.dumps(first))["platform"] == "x"
