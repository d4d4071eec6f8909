"""What is read from nvidia-smi. The readings were printed by one, with an H200."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator import gpu

IDLE = "345, 81.75, 0, 0x0000000000000001\n"
WORKING = "1980, 410.10, 93, 0x0000000000000000\n"
CAPPED = "1755, 698.00, 99, 0x0000000000000004\n"
HOT = "1200, 500.00, 99, 0x0000000000000020\n"


def tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an nvidia-smi of ours first on PATH."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_clocks_are_those_of_a_working_gpu() -> None:
    seen = gpu.summary(IDLE + WORKING + WORKING + CAPPED + IDLE)
    assert seen["sm_mhz"] == {"min": 1755.0, "median": 1980.0, "max": 1980.0}
    assert seen["readings"] == 3
    assert seen["power_w"] == pytest.approx((2 * 410.1 + 698) / 3)
    assert seen["slowdowns"] == ["power cap"]


def test_a_thermal_slowdown_is_told_and_an_idle_clock_is_none() -> None:
    assert gpu.summary(HOT)["slowdowns"] == ["thermal slowdown by the driver"]
    assert gpu.summary(IDLE)["slowdowns"] == []


def test_a_reading_cut_off_by_the_end_is_left_out() -> None:
    assert gpu.summary(WORKING + "1980, 41")["readings"] == 1


def test_no_reading_leaves_the_reason() -> None:
    told = 'Field "clocks_event_reasons.active" is not a valid field to query.\n'
    assert gpu.summary(told) == {"reason": f"nvidia-smi: {told.strip()}"}
    assert gpu.summary("") == {"reason": "nvidia-smi: it said nothing"}


def test_readings_are_taken_while_a_phase_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, f"while :; do printf '{WORKING.strip()}\\n'; sleep 0.05; done", monkeypatch)
    with gpu.clocks("cuda") as seen:
        assert seen == {}
        time.sleep(0.3)
    assert seen["readings"] >= 2
    assert seen["sm_mhz"]["median"] == 1980


def test_other_processes_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "echo '4123, python3, 18000'", monkeypatch)
    assert gpu.others("cuda", patience_s=0.0) == {"processes": ["4123, python3, 18000"]}
    tool(tmp_path, "true", monkeypatch)
    assert gpu.others("cuda") == {"processes": []}
    tool(tmp_path, "echo 'NVIDIA-SMI has failed'; exit 9", monkeypatch)
    assert gpu.others("cuda") == {"processes": None, "reason": "nvidia-smi: NVIDIA-SMI has failed"}


def test_the_arm_before_may_show_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = f"if [ -e {tmp_path}/gone ]; then exit; fi; touch {tmp_path}/gone; echo '7, python, 9'"
    tool(tmp_path, last, monkeypatch)
    assert gpu.others("cuda", patience_s=5.0) == {"processes": []}


def test_a_board_that_tells_no_power_and_no_share() -> None:
    seen = gpu.summary("2400, [N/A], [N/A], 0x0000000000000000\n")
    assert (seen["sm_mhz"]["median"], seen["power_w"]) == (2400.0, None)


def test_without_a_gpu_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu.others("cpu") == {"processes": None, "reason": gpu.NO_GPU}
    assert gpu.others("cuda") == {"processes": None, "reason": "no nvidia-smi on PATH"}
    with gpu.clocks("cpu") as seen:
        pass
    assert seen == {"reason": gpu.NO_GPU}
    with gpu.clocks("cuda") as seen:
        pass
    assert seen == {"reason": "no nvidia-smi on PATH"}
