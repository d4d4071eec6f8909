"""What is read from nvidia-smi. The readings were printed by one, with an H200."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.measuring import gpu
from orchestrator.planning import cards
from tests.orchestrator import nvidia

IDLE = "2026/11/30 21:00:00.100, 0, 345, 81.75, 0, 4, 0x0000000000000001\n"
WORKING = "2026/11/30 21:00:00.600, 0, 1980, 410.10, 93, 61234, 0x0000000000000000\n"
CAPPED = "2026/11/30 21:00:01.100, 0, 1755, 698.00, 99, 61234, 0x0000000000000004\n"
HOT = "2026/11/30 21:00:01.600, 0, 1200, 500.00, 99, 61234, 0x0000000000000020\n"


def used() -> list[cards.Card]:
    found = cards.used("cuda", {})
    assert not isinstance(found, str)
    return found


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
    assert gpu.summary(WORKING + WORKING[:40])["readings"] == 1


def test_no_reading_leaves_the_reason() -> None:
    told = 'Field "clocks_event_reasons.active" is not a valid field to query.\n'
    assert gpu.summary(told) == {"reason": f"nvidia-smi: {told.strip()}"}
    assert gpu.summary("") == {"reason": "nvidia-smi: it said nothing"}


def test_a_reading_has_its_time_and_its_gpu() -> None:
    (reading,) = gpu.readings(WORKING)
    assert time.gmtime(reading.unix_ns // 10**9)[:6] == (2026, 11, 30, 21, 0, 0)
    assert reading.unix_ns % 10**9 == 600_000_000
    assert (reading.card, reading.power_w, reading.memory_mib) == ("0", 410.1, 61234)


def test_readings_are_taken_while_a_phase_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "date +'%Y/%m/%d %H:%M:%S.%3N, 2, 1980, 410.10, 93, 61234, 0x0000000000000000'"
    calls = nvidia.put(
        tmp_path / "tools",
        monkeypatch,
        cards=(nvidia.CARD,) * 4,
        otherwise=f"while :; do {line}; sleep 0.05; done",
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    log = tmp_path / "gpu.csv"
    for _ in range(2):
        before = time.monotonic_ns()
        with gpu.clocks(used(), log) as seen:
            time.sleep(0.3)
        assert seen["readings"] >= 2
        assert seen["sm_mhz"]["median"] == 1980
    assert f"-i {nvidia.UUIDS[2]} --loop-ms=500" in calls.read_text()
    kept = gpu.readings(log.read_text())
    assert len(kept) > seen["readings"], "those of the phase before stay"
    last = kept[-1].unix_ns - seen["monotonic_to_unix_ns"]
    assert before < last < time.monotonic_ns(), "on the clock of the samples"


def test_other_processes_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = nvidia.put(tmp_path / "a", monkeypatch, apps="echo '4123, python3, 18000'")
    assert gpu.others(used(), patience_s=0.0) == {"processes": ["4123, python3, 18000"]}
    assert calls.read_text().endswith(f"-i {nvidia.UUIDS[0]}\n"), "no other GPU is asked about"
    nvidia.put(tmp_path / "b", monkeypatch)
    assert gpu.others(used()) == {"processes": []}
    nvidia.put(tmp_path / "c", monkeypatch, apps="echo 'NVIDIA-SMI has failed'; exit 9")
    assert gpu.others(used()) == {"processes": None, "reason": "nvidia-smi: NVIDIA-SMI has failed"}


def test_the_arm_before_may_show_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = f"if [ -e {tmp_path}/gone ]; then exit; fi; touch {tmp_path}/gone; echo '7, python, 9'"
    nvidia.put(tmp_path, monkeypatch, apps=last)
    assert gpu.others(used(), patience_s=5.0) == {"processes": []}


def test_a_board_that_tells_no_power_and_no_share() -> None:
    stamp = "2026/11/30 21:00:00.100"
    seen = gpu.summary(f"{stamp}, 0, 2400, [N/A], [Not Supported], [N/A], 0x0000000000000000\n")
    assert (seen["sm_mhz"]["median"], seen["power_w"]) == (2400.0, None)


def test_without_a_gpu_there_is_a_reason(tmp_path: Path) -> None:
    reason = "no nvidia-smi on PATH"
    assert gpu.others(reason) == {"processes": None, "reason": reason}
    with gpu.clocks(reason, tmp_path / "gpu.csv") as seen:
        pass
    assert seen == {"reason": reason}
    assert not (tmp_path / "gpu.csv").exists()
