"""A run on one of four GPUs, as far as that goes without any: nvidia-smi and engine are ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import job as jobs
from orchestrator import run as flow
from orchestrator.progress import Progress
from orchestrator.result.build import build
from orchestrator.rundir import read_json
from tests.orchestrator import nvidia
from tests.recipes_for_tests import recipe_data, write_recipe

READING = "date +'%Y/%m/%d %H:%M:%S.%3N, 2, 1980, 650.00, 93, 61234, 0x0000000000000000'"
FLAGS = "--accept 3,0,2 --draft-tokens 7 --delay 0.01"
TORCH = 'print(\'{"bytes": 1000, "seconds": [1e-9], "with": "NVIDIA H200, torch 2"}\')'


def with_cuda(server: Path) -> str:
    """The fake llama-server, with CUDA in its build."""
    path = server.with_name("llama-server-cuda")
    path.write_text(
        '#!/bin/sh\n[ "$1" = --list-devices ] && echo "  CUDA0: NVIDIA H200" && exit\n'
        f'exec {server} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def recipe(folder: Path) -> Path:
    data: dict[str, Any] = recipe_data(folder, prompts=4, device="cuda")
    data["engines"]["llamacpp"]["executable"] = with_cuda(folder / "llama-server")
    for arm in data["arms"]:
        arm["env"] = {"FAKE_ENGINE": FLAGS}
    return write_recipe(folder, data)


def test_a_run_on_the_third_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    loop = f"while :; do {READING}; sleep 0.02; done"
    calls = nvidia.put(tools, monkeypatch, cards=(nvidia.CARD,) * 4, otherwise=loop)
    torch = tools / "python3"
    torch.write_text(f"#!{sys.executable}\n{TORCH}\n")
    torch.chmod(0o755)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", nvidia.UUIDS[2])

    job = jobs.prepare(str(recipe(tmp_path)))
    assert {item.plan.env["CUDA_VISIBLE_DEVICES"] for item in job.planned} == {"2"}
    run = jobs.create(job, tmp_path / "out")
    flow.execute(job, run, Progress(quiet=True))
    result = build(run)

    assert [arm["status"] for arm in result["arms"]] == ["ok", "ok"]
    assert result["hardware"] == "1 x NVIDIA H200, driver 580.95.05, 700.00 W"
    assert result["bandwidth"]["bytes_per_s"] == pytest.approx(2e12)
    status = read_json(run.turn("llamacpp-dflash", 1) / "status.json")
    assert [card["index"] for card in status["gpus"]] == ["2"]
    assert status["others_on_gpu"] == {"processes": []}
    for arm in result["arms"]:
        metrics = arm["modes"][0]["metrics"]
        assert metrics["power_w"]["value"] == pytest.approx(650)
        assert metrics["power_w"]["n"] >= 4
        assert metrics["energy_j_per_token"]["value"] > 0
        assert metrics["gpu_memory_mib"]["value"] == 61234
        assert arm["modes"][0]["conditions"]["gpu_processes"] == "none"
    watched = [call for call in calls.read_text().splitlines() if "-i " in call]
    assert watched
    assert all(nvidia.UUIDS[2] in call for call in watched)
