"""The mock's truth is the truth: engines' formats, schedules, and its own log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from backends import BACKENDS
from backends.base import Request, Sampling
from benchmarks.client import drive, formats
from benchmarks.client.mock import Rung, Scenario
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.sample import Sample

ASKED = 64
CLOCKS_NS = 1_000_000


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with drive.mock() as url:
        yield url


def configure(url: str, *rungs: Rung) -> None:
    scenario = Scenario(rungs, ttft_s=0.01, max_tokens=ASKED)
    httpx.put(f"{url}/mock/scenario", content=scenario.to_json()).raise_for_status()


def log(url: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = httpx.get(f"{url}/mock/log").json()
    return lines


def load(url: str, backend: str, count: int, max_tokens: int = ASKED) -> list[Sample]:
    return run_phase(
        url,
        BACKENDS[backend],
        "mock",
        [
            Request(f"p{n}", (1, 2, 3), max_tokens, Sampling(0.0), 1, (0,), True)
            for n in range(count)
        ],
        concurrency=4,
        context=PhaseContext("mock", "greedy", 0),
        on_sample=lambda _: None,
        should_stop=lambda: False,
        timeout_s=30,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("per_chunk", [1, 4, 7])
def test_every_engine_format_brings_every_token(url: str, backend: str, per_chunk: int) -> None:
    configure(url, Rung(4, 30, 3000.0, per_chunk))
    samples = load(url, backend, 4)
    for sample in samples:
        assert sample.error is None
        assert sample.token_ids == tuple(formats.token_id(place) for place in range(30))
        assert sample.finish == "length"
        assert sample.server_completion_tokens == 30
    assert [line["tokens"] for line in log(url)] == [30] * 4


def test_rungs_follow_each_other_and_other_requests_are_apart(url: str) -> None:
    configure(url, Rung(2, 10, 1000.0), Rung(2, 20, 1000.0, 4))
    load(url, "vllm", 1, max_tokens=3)
    load(url, "vllm", 4)
    assert [(line["rung"], line["tokens"]) for line in log(url)] == [
        (None, 3),
        (0, 10),
        (0, 10),
        (1, 20),
        (1, 20),
    ]


def test_no_write_is_early_and_the_log_says_when_each_was(url: str) -> None:
    configure(url, Rung(1, 40, 1000.0, 2, jitter=0.3, stall_every=8, stall_s=0.02))
    (sample,) = load(url, "vllm", 1)
    (line,) = log(url)
    due = [line["due_ns"] + offset for offset in line["offsets_ns"]]
    assert line["due_ns"] == line["came_ns"] + 10_000_000
    assert len(line["sent_ns"]) == len(due) == 20
    assert all(sent >= planned for sent, planned in zip(line["sent_ns"], due, strict=True))
    # Bytes reach the client only once they are sent; chunks may come together, but none earlier.
    # The client's stamps are the kernel's, of another clock, brought to this one.
    assert sample.t_send_ns < line["came_ns"]
    for (at, _), sent in zip(sample.chunks, line["sent_ns"], strict=True):
        assert at > sent - CLOCKS_NS


def test_a_schedule_has_its_rate_its_jitter_and_its_stalls() -> None:
    steady = Rung(1, 40, 1000.0, 4).offsets()
    assert steady == tuple(4_000_000 * place for place in range(10))
    stalled = Rung(1, 40, 1000.0, 4, stall_every=5, stall_s=0.5).offsets()
    assert stalled[4] == steady[4]
    assert stalled[5] == steady[5] + 500_000_000
    rough = Rung(1, 40, 1000.0, 4, jitter=0.25).offsets()
    shifts = [moved - planned for moved, planned in zip(rough, steady, strict=True)]
    assert shifts[0] == 0
    assert len(set(shifts)) == 10
    assert all(abs(shift) <= 1_000_000 for shift in shifts)


def test_openai_chat_has_one_role_and_usage(url: str) -> None:
    configure(url, Rung(1, 6, 1000.0, 4))
    body = {"model": "mock", "messages": [], "max_completion_tokens": ASKED, "stream": True}
    text = httpx.post(f"{url}/v1/chat/completions", json=body).text
    assert text.count('"role":"assistant"') == 1
    assert text.count(formats.WORD) == 6
    assert '"completion_tokens":6' in text
    assert text.endswith("data: [DONE]\n\n")


def test_what_tools_ask_before_they_start(url: str) -> None:
    assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "mock"
    assert httpx.get(f"{url}/health").status_code == 200
    assert httpx.get(f"{url}/metrics").status_code == 200
    assert httpx.get(f"{url}/nothing").status_code == 404
