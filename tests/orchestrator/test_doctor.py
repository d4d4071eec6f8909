from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.environments.engines import cache_root
from tests.orchestrator.up.servers import museorch


def test_an_empty_machine_is_told_what_to_install(tmp_path: Path) -> None:
    done = museorch(tmp_path / "cache", "doctor")
    assert done.returncode == 1, done.stderr
    assert "engines\n  none" in done.stdout
    assert "\nnext: museorch engines install " in done.stdout
    assert not (tmp_path / "cache").exists(), "it only looks"


@pytest.mark.engine("llamacpp")
@pytest.mark.engine("vllm")
def test_what_is_here_can_run_and_what_is_not_is_named(tmp_path: Path) -> None:
    done = museorch(_home(tmp_path), "doctor", "--json", env={"HF_HUB_CACHE": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    runs = {(r["model"], r["backend"], r["speculation"]): r for r in data["can_run"]}
    assert runs["tiny-muse", "llamacpp", "dspark"]["ok"]
    assert runs["tiny-muse", "vllm", "dflash"]["ok"]
    refused = runs["tiny-muse", "vllm", "dspark"]
    assert refused["ok"] == bool(data["gpu"]["cards"])
    assert runs["muse-glimmer-30b", "llamacpp", "dflash"]["reason"]
    (vllm,) = [e for e in data["engines"] if e["backend"] == "vllm" and e["device"] == "cpu"]
    states = vllm["patches"]
    assert "vllm-v1-wrapper" in [*states.get("needed", []), *states.get("applied", [])]
    big = next(model for model in data["models"] if model["name"] == "muse-glimmer-30b")
    assert {one["fetch"] for one in big["artefacts"]} >= {
        "hf download meta-models/Muse-Glimmer-30B",
        "hf download meta-models/Muse-Glimmer-30B-assistant",
    }
    assert data["machine"]["ram_free_bytes"] <= data["machine"]["ram_bytes"]
    assert data["next"].startswith("museorch up --model tiny-muse")


def test_a_gpu_is_shown_with_driver_and_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that answers as nvidia-smi does."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *driver_version*) echo 'NVIDIA X, 610.43, 24576, 450.00, GPU-1, 0';;\n"
        "  *memory.free*) echo '24000, 24576';;\n"
        "  *) echo '| Driver Version: 610.43   CUDA Version: 13.2 |';;\n"
        "esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    done = museorch(tmp_path / "cache", "doctor")
    assert "GPU 0  NVIDIA X, 24576 MiB, driver 610.43" in done.stdout
    assert "CUDA   13.2, 23.4 GiB free" in done.stdout


def _home(folder: Path) -> Path:
    """A cache with the engines of this machine and nothing else."""
    home = folder / "cache"
    home.mkdir()
    (home / "engines").symlink_to(cache_root() / "engines")
    return home
