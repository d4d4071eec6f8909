"""Readings are given to a phase by their time; power, energy and memory follow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.load.sample import Sample
from orchestrator.measuring.energy import Power, pooled, power
from orchestrator.measuring.metrics import Phase, measure
from tests.orchestrator.measured import sample

SHIFT = 1_796_000_000 * 10**9
"""From the samples' clock to Unix time, ns."""
SEEN = {"monotonic_to_unix_ns": SHIFT}


def at(second: float, watts: str, card: int = 0, memory: str = "60000") -> str:
    stamp = datetime.fromtimestamp(SHIFT / 1e9 + second, UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
    return f"{stamp}, {card}, 1980, {watts}, 93, {memory}, 0x0000000000000000"


def log(folder: Path, lines: Sequence[str]) -> Path:
    path = folder / "gpu.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def requests() -> list[Sample]:
    """One of 101 tokens, from second 0 to 4.01."""
    return [sample("a", 101, 4.0)]


def test_only_readings_of_the_phase_count(tmp_path: Path) -> None:
    use = ("60000", "60002", "60009", "60007", "60001", "60003")
    during = [at(0.5 + 0.5 * n, f"{400 + 10 * n}", memory=mib) for n, mib in enumerate(use)]
    around = [at(-1.0, "90"), at(30.0, "690")]
    found = power(SEEN, log(tmp_path, [around[0], *during, "cut, off", around[1]]), requests())
    assert isinstance(found, Power)
    assert found.readings == 6
    assert found.joules / found.seconds == pytest.approx(425)
    phase = Phase(requests(), None, "none", None, found)
    measured = measure(phase, ("power_w", "energy_j_per_token", "gpu_memory_mib"))
    assert measured["power_w"].value == pytest.approx(425)
    assert measured["energy_j_per_token"].value == pytest.approx(425 * found.seconds / 101)
    assert (measured["gpu_memory_mib"].value, measured["gpu_memory_mib"].n) == (60009, 6)


def test_gpus_of_one_arm_add_up(tmp_path: Path) -> None:
    lines = [at(0.5 + 0.5 * n, f"{400 + 100 * card}", card) for n in range(6) for card in (0, 1)]
    found = power(SEEN, log(tmp_path, lines), requests())
    assert isinstance(found, Power)
    assert found.joules / found.seconds == pytest.approx(900)
    assert found.memory_mib == 120_000


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([at(0.5, "400"), at(1.0, "400")], "2 readings in 4.0 s are too few"),
        ([at(50.0, "400")] * 9, "0 readings in 4.0 s are too few"),
        ([at(1.0, "[N/A]")] * 9, "the GPU does not tell its power"),
    ],
)
def test_what_is_not_known_has_a_reason(tmp_path: Path, lines: list[str], reason: str) -> None:
    assert power(SEEN, log(tmp_path, lines), requests()) == reason


def test_without_readings_their_absence_is_the_reason(tmp_path: Path) -> None:
    assert power({"reason": "no GPU in use"}, tmp_path / "gpu.csv", requests()) == "no GPU in use"
    assert power({}, tmp_path / "gpu.csv", requests()) == "no readings of the GPU were kept"


def test_blocks_are_pooled_by_energy() -> None:
    found = pooled([Power(1000.0, 2.0, 4, 70.0), Power(2000.0, 8.0, 16, 60.0)])
    assert found == Power(3000.0, 10.0, 20, 70.0)
    assert pooled([Power(1.0, 1.0, 4, None), "no request succeeded"]) == "no request succeeded"
