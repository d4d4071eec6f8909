from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends import BACKENDS
from backends.base import Request
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.sample import Sample, read
from orchestrator.serving.serve import Server, serve
from tests.fakes import PROBE, TEMPERATURE, eventually, fake_plan, request

NAMES = sorted(BACKENDS)


def load(server: Server, requests: Sequence[Request], **changes: Any) -> list[Sample]:
    settings: dict[str, Any] = {
        "concurrency": 1,
        "context": PhaseContext("arm", "greedy", 0),
        "on_sample": lambda _: None,
        "should_stop": lambda: False,
        "timeout_s": 10.0,
    }
    backend = BACKENDS[server.name]
    return run_phase(server.url, backend, "muse", requests, **(settings | changes))


Run = Callable[..., list[Sample]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Serve the fake engine with these flags, put `requests` on it."""

    def run(
        name: str, *flags: str, requests: Sequence[Request] = (request(),), **changes: Any
    ) -> list[Sample]:
        plan = fake_plan(name, *flags)
        with serve(plan, BACKENDS[name], folder=tmp_path, probe=PROBE, model="muse") as server:
            return load(server, requests, **changes)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_drafter_changes_the_chunks_not_the_tokens(run: Run, name: str) -> None:
    requests = [request(number) for number in range(3)]
    plain = run(name, requests=requests)
    drafted = run(name, "--accept", "3,0,2", "--crlf", "--comments", requests=requests)
    assert [sample.error for sample in plain + drafted] == [None] * 6
    assert [sample.token_ids for sample in plain] == [sample.token_ids for sample in drafted]
    assert len({sample.token_ids for sample in plain}) == 3
    assert [len(sample.chunks) for sample in plain] == [12, 12, 12]


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_a_sample(run: Run, name: str) -> None:
    asked = request(3, tokens=6, sampling=TEMPERATURE)
    context = PhaseContext("an-arm", "temperature", 2)
    before = time.monotonic_ns()
    [sample] = run(name, "--ttft", "0.03", "--delay", "0.01", requests=[asked], context=context)
    assert (sample.arm, sample.mode, sample.repeat) == ("an-arm", "temperature", 2)
    assert (sample.prompt_id, sample.seed, sample.prompt_tokens) == ("p3", 3, 3)
    assert sample.request_id == "an-arm/temperature/c1/r2/p3"
    assert (sample.server_prompt_tokens, sample.server_completion_tokens) == (3, 6)
    assert (sample.finish, sample.error) == ("length", None)
    # The fake engine is late rather than early: 30 ms to the first token, 10 ms to each next one.
    times = [sample.t_send_ns, *(at for at, _ in sample.chunks), sample.t_end_ns]
    assert times == sorted(times)
    assert before < times[0]
    assert times[1] - times[0] >= 30e6
    assert times[-2] - times[0] >= 80e6


def test_cumulative_ids_are_not_counted_twice(run: Run) -> None:
    requests = [request(0), request(1)]
    plain = run("sglang", requests=requests)
    cumulative = run("sglang", "--cumulative", "--accept", "3,0,2", requests=requests)
    assert [one.token_ids for one in cumulative] == [one.token_ids for one in plain]


def test_sglang_tells_speculation_per_request(run: Run) -> None:
    [sample] = run("sglang", "--accept", "3,0,2")
    assert sample.server is not None
    assert sample.server.histogram == (1, 0, 2, 1, 0)
    assert (sample.server.steps, sample.server.drafted, sample.server.accepted) == (4, 16, 7)


def test_an_end_token_is_a_finish(run: Run) -> None:
    [sample] = run("llamacpp", "--eos-after", "5")
    assert (len(sample.token_ids), sample.finish, sample.error) == (5, "stop", None)


def test_requests_go_out_in_order_and_side_by_side(run: Run) -> None:
    requests = [request(number, tokens=5) for number in range(8)]
    alone = run("vllm", "--delay", "0.02", requests=requests[:2])
    together = run("vllm", "--delay", "0.02", requests=requests, concurrency=4)
    assert alone[0].t_end_ns < alone[1].t_send_ns
    assert {sample.concurrency for sample in together} == {4}
    sent = sorted(together, key=lambda sample: sample.t_send_ns)
    assert [sample.prompt_id for sample in sent] == [one.id for one in requests]
    first_end = min(sample.t_end_ns for sample in together)
    assert sum(sample.t_send_ns < first_end for sample in together) == 4


def test_many_streams_lose_nothing(run: Run) -> None:
    requests = [request(number, tokens=40) for number in range(64)]
    samples = run("llamacpp", "--accept", "1,3", requests=requests, concurrency=64)
    alone = run("llamacpp", "--chunk-tokens", "9", requests=requests, concurrency=2)
    assert {one.prompt_id: one.token_ids for one in samples} == {
        one.prompt_id: one.token_ids for one in alone
    }
    assert {len(one.token_ids) for one in samples} == {40}


@pytest.mark.parametrize(
    ("flags", "error", "tokens"),
    [
        # The probe is request 1, and took 2 tokens.
        (("--fail-from", "2", "--fail-text", "no\n memory"), "HTTP 500: no memory", 0),
        (("--fail-from", "2", "--fail-text", "x" * 900), f"HTTP 500: {'x' * 389}…", 0),
        (("--error-after", "4", "--fail-text", "out of slots"), "out of slots", 4),
        (("--break-after", "4"), "the stream broke: ", 4),
        (("--no-finish-from", "2"), "the stream ended after 6 tokens without a finish reason", 6),
        (("--die-after", "6"), "the stream broke: ", 4),
    ],
    ids=["status", "long text", "error event", "cut", "no finish", "killed"],
)
def test_a_failure_is_a_sample_with_its_reason(
    run: Run, flags: tuple[str, ...], error: str, tokens: int
) -> None:
    [sample] = run("vllm", *flags)
    assert sample.error is not None
    assert sample.error.startswith(error)
    assert "\n" not in sample.error
    assert len(sample.token_ids) == tokens
    assert sample.t_end_ns > sample.t_send_ns


@pytest.mark.parametrize("flags", [("--hang-from", "2"), ("--delay", "0.2")])
def test_a_request_that_takes_too_long(run: Run, flags: tuple[str, ...]) -> None:
    [sample] = run("vllm", *flags, timeout_s=0.3)
    assert sample.error == "no end after 0.3 s"
    assert len(sample.token_ids) < 12


def test_requests_after_the_engines_death_fail_too(run: Run) -> None:
    requests = [request(number) for number in range(4)]
    samples = run("vllm", "--die-after", "20", requests=requests)
    assert len(samples) == 4
    assert samples[0].error is None
    assert [sample.error is None for sample in samples[1:]] == [False, False, False]
    assert samples[3].error is not None
    assert samples[3].error.startswith("no connection: ")


def test_it_stops_when_told(run: Run) -> None:
    done: list[Sample] = []
    samples = run(
        "vllm",
        requests=[request(number) for number in range(20)],
        on_sample=done.append,
        should_stop=lambda: len(done) >= 3,
    )
    assert 3 <= len(samples) < 20
    assert samples == done


def test_what_on_sample_raises_ends_the_phase(run: Run) -> None:
    seen: list[str] = []

    def full(sample: Sample) -> None:
        seen.append(sample.prompt_id)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(
            "vllm",
            "--delay",
            "0.01",
            requests=[request(number) for number in range(9)],
            on_sample=full,
        )
    assert len(seen) < 9


def test_no_proxy_comes_in_between(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    [sample] = run("vllm")
    assert sample.error is None


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    script = f"""
import sys
from pathlib import Path
from backends import BACKENDS
from orchestrator.load import sample
from orchestrator.serving.serve import serve
from tests.fakes import PROBE, fake_plan, request
from tests.orchestrator.load.test_client import load
plan = fake_plan("vllm", "--delay", "0.02")
with serve(plan, BACKENDS["vllm"], folder=Path({str(tmp_path)!r}), probe=PROBE, model="muse") as s:
    print(s.pid, flush=True)
    load(s, [request(n, tokens=5) for n in range(500)], concurrency=3,
         on_sample=lambda one: sample.append(Path({str(path)!r}), one))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        engine = int(process.stdout.readline())
        assert eventually(lambda: path.exists() and path.read_text().count("\n") >= 6)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    samples = read(path)
    assert len(samples) >= 6
    assert all(one.error is None and len(one.token_ids) == 5 for one in samples)
    with pytest.raises(ProcessLookupError):
        os.kill(engine, 0)


def test_samples_are_plain_json(run: Run) -> None:
    [sample] = run("llamacpp", "--accept", "2")
    loaded = json.loads(sample.to_json())
    assert [token for _, ids in loaded["chunks"] for token in ids] == list(sample.token_ids)
