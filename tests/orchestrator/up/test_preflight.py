"""What this machine says against a plan. A script stands in for nvidia-smi; no GPU is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.base import Finding
from orchestrator.inputs.hub import cache
from orchestrator.inputs.models import RECIPES
from orchestrator.job import prepare
from orchestrator.measuring.environment import usable_threads
from orchestrator.up import preflight
from tests.orchestrator import nvidia
from tests.orchestrator.up.servers import write_serving


@pytest.fixture(autouse=True)
def nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "cache"))


def card(folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, total: int) -> None:
    """An H200 with this much memory in MiB."""
    nvidia.put(folder / "tools", monkeypatch, otherwise=f"echo '{free}, {total}'")


def found(recipe: str, code: str) -> dict[str, Finding]:
    """By arm: what `museorch plan` says under this code."""
    return {
        item.arm.id: finding
        for item in prepare(recipe).planned
        for finding in item.plan.findings
        if finding.code == code
    }


BF16 = "muse-glimmer-30b/bf16"


def test_the_drafter_counts_against_the_memory_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(tmp_path, monkeypatch, 61 * 1024, 81_920)
    assert set(found(BF16, "memory")) == {"vllm-dflash", "sglang-dflash"}
    text = found(BF16, "memory")["vllm-dflash"].text
    assert "weights 55.1, drafter 4.8" in text
    assert "61.0 GiB are free" in text


def test_vllm_wants_its_share_of_the_total_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(tmp_path, monkeypatch, 110_000, 143_771)
    warned = found(BF16, "free-memory")
    assert {name.split("-")[0] for name in warned} == {"vllm"}
    assert "engine_args: [--gpu-memory-utilization, 0.75]" in str(warned["vllm-base"].fix)
    card(tmp_path, monkeypatch, 143_000, 143_771)
    assert found(BF16, "free-memory") == {}


def test_the_disk_must_hold_what_is_to_be_fetched(tmp_path: Path) -> None:
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    model["tokenizer"] = str(RECIPES / model["tokenizer"])
    place: dict[str, Any] = {"format": "gguf", "quantisation": "bf16", "hub": "org/m", "file": "m"}
    model["target"]["artefacts"] = [{**place, "bytes": 1 << 60}]
    for spec in model["drafters"].values():
        spec["artefacts"] = [{**place, "file": "d", "bytes": 5}]
    (tmp_path / "big.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    (warned,) = found(str(write_serving(tmp_path, model="big.yaml")), "disk").values()
    assert "1073741824.0 GiB are to be fetched" in warned.text
    assert str(cache()) in warned.text


def test_a_kernel_that_never_overcommits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never = tmp_path / "overcommit"
    never.write_text("2\n", encoding="ascii")
    recipe = str(write_serving(tmp_path / "r"))
    assert found(recipe, "overcommit") == {}
    monkeypatch.setattr(preflight, "OVERCOMMIT", never)
    (warned,) = found(recipe, "overcommit").values()
    assert "vm.overcommit_memory=1" in str(warned.fix)


def test_more_threads_than_cpus(tmp_path: Path) -> None:
    here = usable_threads()
    for threads, warned in ((here, 0), (here + 1, 1)):
        serve = {"context_length": 256, "threads": threads}
        recipe = write_serving(tmp_path / str(threads), serve=serve)
        assert len(found(str(recipe), "threads")) == warned


@pytest.mark.parametrize(
    ("name", "warned"), [("NVIDIA GB10", {"vllm-dflash", "vllm-dspark"}), ("NVIDIA H200", set())]
)
def test_flash_attention_with_a_drafter_on_a_card_where_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, warned: set[str]
) -> None:
    nvidia.put(tmp_path / "tools", monkeypatch, cards=(f"{name}, 580.95.05, 143771, 700.00",))
    assert set(found(BF16, "draft-attention")) == warned


def test_a_drafter_of_another_kind_is_an_error(tmp_path: Path) -> None:
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    model["tokenizer"] = str(RECIPES / model["tokenizer"])
    gguf = RECIPES / "tiny-muse" / "model" / "gguf"

    def artefacts(name: str) -> list[dict[str, str]]:
        return [{"format": "gguf", "quantisation": "bf16", "path": str(gguf / name)}]

    model["target"]["artefacts"] = artefacts("target-bf16.gguf")
    model["drafters"]["dflash"]["artefacts"] = artefacts("dspark-bf16.gguf")
    model["drafters"]["dspark"]["artefacts"] = artefacts("dspark-bf16.gguf")
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    (error,) = found(str(write_serving(tmp_path, model="other.yaml")), "method").values()
    assert error.level == "error"
    assert "holds a dspark drafter, not dflash" in error.text
    assert "under drafters.dspark" in str(error.fix)
