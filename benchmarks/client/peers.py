"""The clients: how each is started on a load, and how its own results are read.

Every one is told the same: so many requests, so many at a time, eight prompt tokens, streaming.
What each does by default beyond that is left on, but for progress bars and warm-up requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from backends.errors import MuseorchError
from benchmarks.client.truth import Formula, Record, Told, by_rung, told
from orchestrator.environments.engines import cache_root, resolve
from orchestrator.load.sample import read as read_samples

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOKENIZER = ROOT / "recipes" / "tiny-muse" / "model" / "target"
PINS: Mapping[str, str] = yaml.safe_load((HERE / "peers.yaml").read_text(encoding="utf-8"))
PROMPT_TOKENS = 8
INSTALL_TIMEOUT_S = 1200
VLLM_BENCH = (
    "from argparse import ArgumentParser; from vllm.benchmarks.serve import add_cli_args, main; "
    "parser = ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)
"""`vllm bench serve` without the command line around it, which dies on the CPU wheel: that one
lacks vLLM's package metadata."""


@dataclass(frozen=True)
class Load:
    """One run of one client."""

    url: str
    concurrency: int
    requests: int
    max_tokens: int
    sizes: tuple[int, ...]
    """Requests on each of the mock's rungs."""
    folder: Path
    """An empty one for what the client writes."""


@dataclass(frozen=True)
class Client:
    name: str
    version: str
    argv: Callable[[Load], list[str]]
    read: Callable[[Load], list[Told] | str]
    """One for each rung, or why there are none."""
    env: Mapping[str, str] = field(default_factory=dict)
    formula: Formula = "tokens"


def museorch(backend: str = "vllm") -> Client:
    def argv(load: Load) -> list[str]:
        words = [load.url, backend, load.requests, load.max_tokens, load.concurrency, load.folder]
        return [sys.executable, "-m", "benchmarks.client.museorch_load", *map(str, words)]

    def read(load: Load) -> list[Record]:
        found = []
        for sample in read_samples(load.folder / "samples.jsonl"):
            if sample.error is None and sample.chunks:
                first, last = sample.chunks[0][0] / 1e9, sample.chunks[-1][0] / 1e9
                count = len(sample.token_ids)
                found.append(Record(sample.t_send_ns / 1e9, first, last, count))
        return found

    name = "museorch" if backend == "vllm" else f"museorch, {backend} stream"
    return Client(name, "this tree", argv, _records(read))


def bare() -> Client:
    def argv(load: Load) -> list[str]:
        host, port = load.url.removeprefix("http://").split(":")
        words = [host, port, load.requests, load.max_tokens, load.concurrency, load.folder]
        return [sys.executable, "-m", "benchmarks.client.bare", *map(str, words)]

    def read(load: Load) -> list[Record]:
        return [Record(*line) for line in _json(load.folder / "records.json")]

    return Client("bare sockets", "no HTTP library", argv, _records(read))


def vllm() -> Client:
    engine = resolve("vllm", device="cpu")

    def argv(load: Load) -> list[str]:
        return [
            *(str(engine.executable), "-c", VLLM_BENCH),
            *("--backend", "openai", "--endpoint", "/v1/completions", "--base-url", load.url),
            *("--model", "mock", "--tokenizer", str(TOKENIZER)),
            *("--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS)),
            *("--random-output-len", str(load.max_tokens), "--num-prompts", str(load.requests)),
            *("--max-concurrency", str(load.concurrency), "--disable-tqdm"),
            *("--save-result", "--save-detailed", "--result-dir", str(load.folder)),
            *("--result-filename", "result.json"),
        ]

    def read(load: Load) -> list[Record]:
        result = _json(load.folder / "result.json")
        keys = ("start_times", "ttfts", "latencies", "output_lens", "errors")
        return [
            Record(start, start + ttft, start + latency, tokens)
            for start, ttft, latency, tokens, error in zip(*(result[k] for k in keys), strict=True)
            if not error
        ]

    return Client("vllm bench serve", engine.version, argv, _records(read))


def guidellm() -> Client:
    program = _program("guidellm")

    def argv(load: Load) -> list[str]:
        backend = f"target={load.url},model=mock,request_format=/v1/completions"
        data = f"prompt_tokens={PROMPT_TOKENS},output_tokens={load.max_tokens}"
        return [
            *(program, "run", "--backend", f"kind=openai_http,{backend}"),
            *("--profile", f"kind=concurrent,streams={load.concurrency}"),
            *("--constraint", f"kind=max_requests,count={load.requests}"),
            *("--data", f"kind=synthetic_text,{data}"),
            *("--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}"),
            *("--output", f"kind=json,path={load.folder / 'result.json'}", "--disable-console"),
        ]

    def read(load: Load) -> list[Record]:
        (run,) = _json(load.folder / "result.json")["benchmarks"]
        found = []
        for request in run["requests"]["successful"]:
            times = request["info"]["timings"]
            start, first = times["request_start"], times["first_token_iteration"]
            tokens = request["output_metrics"]["text_tokens"]
            found.append(Record(start, first, times["last_token_iteration"], tokens))
        return found

    # Ten worker processes are its default; on the one core they would only be in each other's way.
    env = {"GUIDELLM__MAX_WORKER_PROCESSES": "1"}
    return Client("guidellm", PINS["guidellm"], argv, _records(read), env)


def aiperf() -> Client:
    program = _program("aiperf")

    def argv(load: Load) -> list[str]:
        return [
            *(program, "profile", "--model", "mock", "--url", load.url),
            *("--endpoint-type", "completions", "--streaming", "--use-server-token-count"),
            *("--tokenizer", str(TOKENIZER), "--synthetic-input-tokens-mean", str(PROMPT_TOKENS)),
            *("--output-tokens-mean", str(load.max_tokens)),
            *("--concurrency", str(load.concurrency), "--request-count", str(load.requests)),
            *("--artifact-dir", str(load.folder), "--ui", "none", "--no-server-metrics"),
        ]

    def read(load: Load) -> list[Record]:
        found = []
        text = (load.folder / "profile_export.jsonl").read_text(encoding="utf-8")
        for line in map(json.loads, text.splitlines()):
            start = line["metadata"]["request_start_ns"] / 1e9
            ttft, latency, tokens = (
                line["metrics"][key]["value"]
                for key in ("time_to_first_token", "request_latency", "output_sequence_length")
            )
            found.append(Record(start, start + ttft / 1e3, start + latency / 1e3, tokens))
        return found

    return Client("aiperf", PINS["aiperf"], argv, _records(read))


def llama_benchy() -> Client:
    program = _program("llama-benchy")

    def argv(load: Load) -> list[str]:
        runs = load.requests // load.concurrency
        return [
            *(program, "--base-url", f"{load.url}/v1", "--model", "mock"),
            *("--tokenizer", str(TOKENIZER), "--book-url", f"{load.url}/mock/book"),
            *("--pp", str(PROMPT_TOKENS), "--tg", str(load.max_tokens)),
            *("--concurrency", str(load.concurrency), "--runs", str(runs)),
            *("--no-warmup", "--no-adapt-prompt", "--skip-coherence", "--latency-mode", "none"),
            *("--save-result", str(load.folder / "result.json"), "--format", "json"),
        ]

    def read(load: Load) -> list[Told] | str:
        """It keeps rates, of each request and of each batch of as many as run at a time."""
        (run,) = _json(load.folder / "result.json")["benchmarks"]
        ttft, speed = run["e2e_ttft"]["values"], run["tg_req_throughput"]["values"]
        if len(ttft) != sum(load.sizes) or len(speed) != sum(load.sizes):
            return f"{len(speed)} of {sum(load.sizes)} requests in its results"
        found = []
        at = 0
        for size in load.sizes:
            here, at = slice(at, at + size), at + size
            batches = slice(here.start // load.concurrency, at // load.concurrency)
            rates = run["tg_throughput"]["values"][batches]
            tpot = [1e3 / value for value in speed[here]]
            # Tokens are in no result of its own.
            found.append(Told(size, 0, _mean(ttft[here]), _mean(tpot), _mean(rates)))
        return found

    return Client("llama-benchy", PINS["llama-benchy"], argv, read, formula="chunks")


PEERS: Mapping[str, Callable[[], Client]] = {
    "vllm bench serve": vllm,
    "guidellm": guidellm,
    "aiperf": aiperf,
    "llama-benchy": llama_benchy,
}


def found() -> tuple[list[Client], dict[str, str]]:
    """The peers there are, and of each other why it is missing."""
    there, missing = [], {}
    for name, make in PEERS.items():
        print(f"looking for {name}", file=sys.stderr, flush=True)
        try:
            there.append(make())
        except MuseorchError as error:
            missing[name] = str(error)
    return there, missing


def _records(
    read: Callable[[Load], Sequence[Record]],
) -> Callable[[Load], list[Told] | str]:
    def by_its_records(load: Load) -> list[Told] | str:
        rungs = by_rung(read(load), load.sizes)
        return rungs if isinstance(rungs, str) else [told(rung) for rung in rungs]

    return by_its_records


def _program(name: str) -> str:
    """The pinned tool in an environment of its own, made when it is not there."""
    root = cache_root() / "bench" / name
    program = root / "bin" / name
    ready = root / "ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != PINS[name]:
        venv.create(root, with_pip=True, clear=True)
        try:
            done = subprocess.run(
                [root / "bin/python", "-m", "pip", "install", "--quiet", f"{name}=={PINS[name]}"],
                capture_output=True,
                text=True,
                timeout=INSTALL_TIMEOUT_S,
                env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MuseorchError(f"{name} is not installed after {INSTALL_TIMEOUT_S} s") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise MuseorchError(f"{name} {PINS[name]} cannot be installed: {last}")
        ready.write_text(PINS[name], encoding="utf-8")
    return str(program)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
