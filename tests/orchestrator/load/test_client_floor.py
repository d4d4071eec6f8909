from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from backends import BACKENDS
from orchestrator.load.client_floor import Floor, client_json, client_problems
from orchestrator.load.sample import Sample
from orchestrator.measuring.validity import problems
from orchestrator.serving.serve import serve
from tests.fakes import PROBE, fake_plan, request
from tests.orchestrator.load.test_client import load
from tests.orchestrator.measured import plain, sample

SPREAD = {"n": 100, "p50": 1.0, "p99": 5.0, "max": 9.0}
FINE: dict[str, Any] = {
    "wall_s": 10.0,
    "cpu_s": 2.0,
    "loop_cpu_s": 1.5,
    "lag_ms": SPREAD,
    "late_send_ms": SPREAD,
    "empty_share": 0.01,
}


def test_a_phase_tells_what_the_client_cost(tmp_path: Path) -> None:
    floors: list[Floor] = []
    plan = fake_plan("vllm", "--delay", "0.01")
    with serve(plan, BACKENDS["vllm"], folder=tmp_path, probe=PROBE, model="muse") as server:
        samples = load(
            server, [request(n) for n in range(6)], concurrency=2, on_floor=floors.append
        )
    [floor] = floors
    assert floor.wall_s >= 3 * 0.11
    assert 0 < floor.loop_cpu_s <= floor.cpu_s
    assert floor.late_send_ms is not None
    assert floor.lag_ms is not None
    assert floor.late_send_ms.n == 6
    assert floor.lag_ms.n >= 6 * 11
    assert 0 < floor.lag_ms.p50 <= floor.lag_ms.p99 <= floor.lag_ms.max
    # Of two slots: what is not empty was spent on requests.
    busy = sum(one.t_end_ns - one.t_send_ns for one in samples) / 1e9
    assert floor.empty_share * 2 * floor.wall_s == pytest.approx(2 * floor.wall_s - busy, rel=0.5)
    client = client_json(json.loads(json.dumps(asdict(floor))), samples)
    assert client["cpu_us_per_token"] == pytest.approx(1e6 * floor.cpu_s / 72)
    assert client["cpu_share"] == pytest.approx(floor.cpu_s / floor.wall_s)


def decoding(ms: int) -> list[Sample]:
    return [sample("p", seconds=ms / 1e3)]


@pytest.mark.parametrize(
    ("change", "decode_ms", "problem"),
    [
        ({}, 100, None),
        ({"cpu_s": 8.5}, 100, "it kept 85% of a core busy"),
        ({"lag_ms": {**SPREAD, "p99": 30.0}}, 1000, None),
        (
            {"lag_ms": {**SPREAD, "p99": 30.0}},
            200,
            "it read arrivals 30 ms late, where a request decodes 200 ms",
        ),
        ({"lag_ms": None}, 100, None),
        ({"empty_share": 0.2}, 100, None),
        (
            {"empty_share": 0.2, "late_send_ms": {**SPREAD, "p50": 40.0}},
            100,
            "its slots were empty 20% of the time",
        ),
        ({"cpu_s": 0.9, "wall_s": 0.95}, 100, None),
    ],
)
def test_when_the_client_was_the_limit(
    change: dict[str, Any], decode_ms: int, problem: str | None
) -> None:
    samples = decoding(decode_ms)
    found = client_problems(client_json(FINE | change, samples), samples)
    assert found == ([f"the client was the limit: {problem}"] if problem else [])


def test_a_run_of_an_earlier_museorch_tells_nothing() -> None:
    assert client_json(None, decoding(100)) is None
    assert client_problems(None, decoding(100)) == []


def test_the_gate_makes_the_phase_invalid() -> None:
    samples = decoding(100)
    client = client_json(FINE | {"cpu_s": 9.0}, samples)
    workload = {"count": 1, "output_tokens": 100, "stop": "fixed"}
    assert problems(plain(samples), samples, workload, None, client=client) == (
        "the client was the limit: it kept 90% of a core busy",
    )
