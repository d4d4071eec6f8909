#!/usr/bin/env python3
"""A process that behaves like an engine's server, and misbehaves on request.

It speaks the streaming formats of vLLM, llama.cpp and SGLang over real HTTP, keeps true speculation
counters, and proves nothing about the engines themselves. Standard library only, run by path:

    python tests/fake_engine.py --format vllm --port 8000 --accept 3,0,2 --draft-tokens 4

It ignores flags it does not know and takes more of its own from $FAKE_ENGINE, so that a real
backend's plan can launch it in the engine's place.

Tokens are a function of prompt, seed (unless greedy) and position alone, so a drafter never changes
them. `--accept` is the number of drafts accepted by each step, repeated; without it every step
yields `--chunk-tokens` tokens and no speculation is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TOP = [{"id": token, "logprob": -token / 100} for token in range(510)]
"""Of every token, in llama.cpp's format: a token is the likelier the smaller its id."""
PATHS = {"vllm": "/v1/completions", "llamacpp": "/completion", "sglang": "/generate"}


def options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--format", choices=list(PATHS), default="vllm")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ttft", type=float, default=0.0, help="seconds")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between steps")
    parser.add_argument("--chunk-tokens", type=int, default=1)
    parser.add_argument("--accept", help="drafts accepted per step, for instance 3,0,2")
    parser.add_argument("--draft-tokens", type=int, default=4)
    parser.add_argument("--eos-after", type=int, help="end each answer after this many tokens")
    parser.add_argument("--turn-at", type=int, help="place of a token that differs from then on")
    parser.add_argument("--cumulative", action="store_true", help="SGLang: repeat earlier tokens")
    parser.add_argument("--crlf", action="store_true")
    parser.add_argument("--comments", action="store_true", help="keep-alive comments in between")
    parser.add_argument("--ctx-size", type=int, default=4096, help="as llama-server's: all slots")
    parser.add_argument("--parallel", type=int, default=1)
    # How it starts.
    parser.add_argument("--log", action="append", default=[], help="a line to log at start")
    parser.add_argument("--fail-start", type=int, help="exit at once with this status")
    parser.add_argument("--slow-start", type=float, default=0.0, help="seconds of 503 on /health")
    parser.add_argument("--slow-listen", type=float, default=0.0, help="seconds without a socket")
    parser.add_argument("--no-tokens", action="store_true", help="answer without a token")
    parser.add_argument("--noisy", type=int, default=0, help="log lines per step")
    # How it fails. Requests and tokens are counted from the first, the probe's included.
    parser.add_argument("--fail-from", type=int, help="HTTP 500 from this request on")
    parser.add_argument("--fail-text", default="the fake engine was told to fail")
    parser.add_argument("--error-after", type=int, help="error event after this many tokens")
    parser.add_argument("--break-after", type=int, help="cut the stream after this many tokens")
    parser.add_argument("--no-finish-from", type=int, help="streams end early from this request")
    parser.add_argument("--hang-from", type=int, help="never answer from this request on")
    parser.add_argument("--die-after", type=int, help="SIGKILL itself after this many tokens")
    parser.add_argument("--exit-after", type=int, help="exit 3 after this many tokens")
    # How it ends.
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--grandchild", action="append", default=[], help="write its pid here")
    return parser.parse_known_args([*args, *shlex.split(os.environ.get("FAKE_ENGINE", ""))])[0]


@dataclass
class Engine:
    options: argparse.Namespace
    started: float = field(default_factory=time.monotonic)
    requests: int = 0
    tokens: int = 0
    steps: int = 0
    accepted: int = 0
    per_position: list[int] = field(default_factory=list)

    def sizes(self, total: int) -> Iterator[tuple[int, int | None]]:
        """(tokens of a step, drafts it accepted or None without speculation)."""
        if self.options.accept is None:
            while total > 0:
                yield min(self.options.chunk_tokens, total), None
                total -= self.options.chunk_tokens
            return
        pattern = itertools.cycle(int(part) for part in self.options.accept.split(","))
        yield 1, None  # the prompt's own pass
        total -= 1
        while total > 0:
            accepted = min(next(pattern), total - 1)
            yield accepted + 1, accepted
            total -= accepted + 1

    def verified(self, accepted: int) -> None:
        self.steps += 1
        self.accepted += accepted
        for position in range(accepted):
            self.per_position[position] += 1

    def metrics(self) -> str:
        name = self.options.format
        requests = f"# TYPE {name}:requests_total counter\n{name}:requests_total {self.requests}\n"
        if self.options.accept is None:
            return requests
        if name == "sglang":
            calls = "sglang:spec_verify_calls_total"
            return f"{requests}# TYPE {calls} counter\n{calls} {self.steps}\n"
        prefix = f"{name}:spec_decode_num"
        label = 'engine="0",model_name="fake"' if name == "vllm" else ""
        values = {
            "drafts": self.steps,
            "draft_tokens": self.steps * self.options.draft_tokens,
            "accepted_tokens": self.accepted,
        }
        lines = [
            f"# TYPE {prefix}_{what}_total counter\n{prefix}_{what}_total{{{label}}} {float(value)}"
            for what, value in values.items()
        ]
        per_position = f"{prefix}_accepted_tokens_per_pos_total"
        lines.append(f"# TYPE {per_position} counter")
        comma = "," if label else ""
        lines += [
            f'{per_position}{{{label}{comma}position="{position}"}} {float(value)}'
            for position, value in enumerate(self.per_position)
        ]
        return "\n".join(lines) + "\n"


@dataclass
class Answer:
    """One stream's state, and its events in the engine's own format."""

    engine: Engine
    prompt: list[int]
    total: int
    seed: int
    probabilities: bool = False
    sent: list[int] = field(default_factory=list)
    histogram: list[int] = field(default_factory=list)

    def step(self, size: int, accepted: int | None) -> list[dict[str, Any]]:
        first = len(self.sent)
        start = sum(self.prompt) * 31 + self.seed * 7
        turned = self.engine.options.turn_at
        ids = [
            (start + 13 * place + (turned is not None and place >= turned)) % 499 + 3
            for place in range(first, first + size)
        ]
        self.sent += ids
        if accepted is not None:
            self.histogram[accepted] += 1
        last = len(self.sent) == self.total
        name = self.engine.options.format
        if name == "vllm":
            choice = {"index": 0, "text": "x" * size, "token_ids": ids}
            choice["finish_reason"] = self.finish() if last else None
            if first == 0:
                choice["prompt_token_ids"] = self.prompt
            return [{"id": "cmpl-1", "object": "text_completion", "choices": [choice]}]
        if name == "llamacpp":
            return [
                {"index": 0, "content": "x", "tokens": [token], "stop": False, "id_slot": 0}
                | {"tokens_predicted": place, "tokens_evaluated": len(self.prompt)}
                | (
                    {"completion_probabilities": [{"top_logprobs": TOP}]}
                    if self.probabilities
                    else {}
                )
                for place, token in enumerate(ids, start=first + 1)
            ]
        meta: dict[str, Any] = {
            "finish_reason": {"type": self.finish(), "length": self.total} if last else None,
            "prompt_tokens": len(self.prompt),
            "completion_tokens": len(self.sent),
        }
        if self.engine.options.accept is not None:
            steps = sum(self.histogram)
            meta |= {
                "spec_verify_ct": steps,
                "spec_num_correct_drafts": sum(j * n for j, n in enumerate(self.histogram)),
                "spec_num_proposed_drafts": steps * self.engine.options.draft_tokens,
                "spec_correct_drafts_histogram": self.histogram,
            }
        shown = self.sent if self.engine.options.cumulative else ids
        return [{"text": "x" * size, "output_ids": list(shown), "meta_info": meta}]

    def tail(self) -> list[dict[str, Any]]:
        name = self.engine.options.format
        if name == "vllm":
            usage = {"prompt_tokens": len(self.prompt), "completion_tokens": len(self.sent)}
            return [{"id": "cmpl-1", "choices": [], "usage": usage}]
        if name == "llamacpp":
            kind = "eos" if self.finish() == "stop" else "limit"
            final = {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": kind}
            final |= {"tokens_predicted": len(self.sent), "tokens_evaluated": len(self.prompt)}
            return [final | {"timings": {"predicted_n": len(self.sent)}}]
        return []

    def finish(self) -> str:
        return "length" if self.engine.options.eos_after is None else "stop"


async def stream(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    """Answer one request; whether the connection may be kept."""
    opts = engine.options
    engine.requests += 1
    number = engine.requests
    if opts.hang_from is not None and number >= opts.hang_from:
        await asyncio.Event().wait()
    if opts.fail_from is not None and number >= opts.fail_from:
        respond(writer, 500, json.dumps({"error": {"message": opts.fail_text, "code": 500}}))
        return True
    params = body.get("sampling_params", body)
    total = next(
        int(params[key]) for key in ("max_tokens", "n_predict", "max_new_tokens") if key in params
    )
    if opts.eos_after is not None:
        total = min(total, opts.eos_after)
    if opts.no_tokens:
        total = 0
    greedy = params.get("temperature", 1) == 0
    seed = 0 if greedy else int(params.get("seed", params.get("sampling_seed", 0)) or 0)
    prompt = body["input_ids"] if "input_ids" in body else body["prompt"]
    histogram = [0] * (opts.draft_tokens + 1)
    answer = Answer(engine, prompt, total, seed, "n_probs" in body, histogram=histogram)

    newline = b"\r\n" if opts.crlf else b"\n"

    def send(*texts: str) -> None:
        data = b"".join(b"data: " + text.encode() + newline * 2 for text in texts)
        if not data:
            return  # a chunk of length 0 would end the body
        if opts.comments:
            data = b": keep-alive" + newline * 2 + data
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    due = time.monotonic() + opts.ttft
    for size, accepted in engine.sizes(total):
        if (pause := due - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        due += opts.delay
        if accepted is not None:
            engine.verified(accepted)
        send(*(json.dumps(event, separators=(",", ":")) for event in answer.step(size, accepted)))
        engine.tokens += size
        for line in range(opts.noisy):
            print(f"INFO step {engine.steps} line {line} {'.' * 80}", flush=True)
        await writer.drain()
        sent = len(answer.sent)
        if opts.die_after is not None and engine.tokens >= opts.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if opts.exit_after is not None and engine.tokens >= opts.exit_after:
            print("RuntimeError: the fake engine was told to exit", flush=True)
            os._exit(3)
        if opts.break_after is not None and sent >= opts.break_after:
            writer.write(b'40\r\ndata: {"half":')
            return False
        if opts.error_after is not None and sent >= opts.error_after:
            send(json.dumps({"error": {"message": opts.fail_text, "code": 500}}))
            break
        if opts.no_finish_from is not None and number >= opts.no_finish_from and 2 * sent >= total:
            break
    else:
        send(*(json.dumps(event) for event in answer.tail()))
    if opts.format != "llamacpp":
        send("[DONE]")
    writer.write(b"0\r\n\r\n")
    return True


def respond(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    data = text.encode()
    writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))


async def serve(engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    keep = True
    try:
        while keep:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            method, path, _ = head[0].split()
            lengths = [line.split(":")[1] for line in head if line.lower().startswith("content-l")]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
            if method == "POST" and path == PATHS[engine.options.format]:
                keep = await stream(engine, json.loads(body), writer)
            elif path == "/health":
                loading = time.monotonic() - engine.started < engine.options.slow_start
                respond(writer, 503 if loading else 200, "{}")
            elif path == "/metrics":
                respond(writer, 200, engine.metrics())
            elif path == "/props":
                slot = {"n_ctx": engine.options.ctx_size // engine.options.parallel}
                respond(writer, 200, json.dumps({"default_generation_settings": slot}))
            elif path == "/version":
                respond(writer, 200, json.dumps({"version": "fake"}))
            else:
                respond(writer, 404, json.dumps({"error": {"message": f"no {path}"}}))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(opts: argparse.Namespace) -> None:
    engine = Engine(opts, per_position=[0] * opts.draft_tokens)
    server = await asyncio.start_server(
        lambda reader, writer: serve(engine, reader, writer), opts.host, opts.port
    )
    print(f"INFO listening on port {opts.port}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    OPTIONS = options(sys.argv[1:])
    if OPTIONS.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for text in OPTIONS.log:
        print(text, flush=True)
    for path in OPTIONS.grandchild:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        with open(f"{path}.new", "w") as file:
            file.write(str(child.pid))
        os.rename(f"{path}.new", path)
    if OPTIONS.fail_start is not None:
        sys.exit(OPTIONS.fail_start)
    time.sleep(OPTIONS.slow_listen)
    asyncio.run(main(OPTIONS))
