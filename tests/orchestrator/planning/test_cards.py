"""Which GPUs are used, on a machine with four."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.measuring import environment
from orchestrator.planning import cards
from tests.orchestrator import nvidia

FOUR = (nvidia.CARD,) * 4


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    nvidia.put(tmp_path, monkeypatch, cards=FOUR)
    return monkeypatch


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (None, "0123"),
        ("2", "2"),
        ("3,1", "31"),
        (nvidia.UUIDS[1], "1"),
        ("GPU-cccc", "2"),
        ("0, 7, 1", "0"),  # CUDA stops at what it does not know
        ("0,0", "0"),
        ("", ""),
        ("-1", ""),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(
    four: pytest.MonkeyPatch, told: str | None, wanted: str
) -> None:
    if told is not None:
        four.setenv("CUDA_VISIBLE_DEVICES", told)
    found = cards.visible()
    assert found is not None
    assert "".join(card["index"] for card in found) == wanted
    assert all(card["uuid"] == nvidia.UUIDS[int(card["index"])] for card in found)


@pytest.mark.usefixtures("four")
def test_of_several_the_first_is_used_and_said() -> None:
    env, told = cards.setting({})
    assert env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"}
    assert told is not None
    assert told.text == "4 GPUs are visible; this engine uses one, GPU 0 (NVIDIA H200)."
    used = cards.used("cuda", env)
    assert [card["index"] for card in used if isinstance(card, dict)] == ["0"]


def test_one_that_was_chosen_is_used_in_silence(four: pytest.MonkeyPatch) -> None:
    four.setenv("CUDA_VISIBLE_DEVICES", nvidia.UUIDS[3])
    env, told = cards.setting({})
    assert env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3"}
    assert told is None


def test_an_arms_own_choice_stays(four: pytest.MonkeyPatch) -> None:
    four.setenv("CUDA_VISIBLE_DEVICES", "3")
    arm = {"CUDA_VISIBLE_DEVICES": "1,2"}
    env, told = cards.setting(arm)
    assert (env, told) == ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, None)
    used = cards.used("cuda", {**env, **arm})
    assert [card["index"] for card in used if isinstance(card, dict)] == ["1", "2"]


def test_a_choice_of_nothing_is_warned_of(four: pytest.MonkeyPatch) -> None:
    four.setenv("CUDA_VISIBLE_DEVICES", "7")
    env, told = cards.setting({})
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert told is not None
    assert told.level == "warning"
    assert cards.used("cuda", env) == "nvidia-smi shows none of CUDA_VISIBLE_DEVICES=7"


def test_one_gpu_needs_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia.put(tmp_path, monkeypatch)
    assert cards.setting({}) == ({}, None)
    assert cards.used("cuda", {}) == cards.listed()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    _, told = cards.setting({})
    assert told is not None, "no GPU is left"
    assert cards.setting({"CUDA_VISIBLE_DEVICES": "0"}) == ({}, None)


def test_without_gpus_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cards.used("cpu", {}) == cards.NO_GPU
    broken = tmp_path / "nvidia-smi"
    broken.write_text("#!/bin/sh\necho NVIDIA-SMI has failed; exit 9\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert (cards.visible(), cards.used("cuda", {})) == (None, "nvidia-smi fails")
    assert cards.setting({}) == ({}, None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert (cards.visible(), cards.used("cuda", {})) == ([], "no nvidia-smi on PATH")


@pytest.mark.usefixtures("four")
def test_hardware_is_what_an_arm_used() -> None:
    machine = {"gpus": cards.visible()}
    one = "1 x NVIDIA H200, driver 580.95.05, 700.00 W"
    assert environment.hardware(machine, "cuda") == one
    used = cards.used("cuda", {"CUDA_VISIBLE_DEVICES": "1,2"})
    assert not isinstance(used, str)
    assert environment.hardware(machine, "cuda", used) == one.replace("1 x", "2 x")
    assert environment.hardware({"gpus": []}, "cuda") is None
