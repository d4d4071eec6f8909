"""Run directories without an engine, as a run leaves them, with as many prompts as wanted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import RequestSpeculation
from orchestrator.load.sample import Sample
from orchestrator.rundir import BOOKEND, RunDirectory, block_turns, write_json

TOKENS = 32
K = 4
MODES: list[dict[str, Any]] = [
    {"name": "greedy", "temperature": 0.0, "top_p": 1.0, "top_k": 0},
    {"name": "temperature", "temperature": 1.0, "top_p": 0.95, "top_k": 64},
]
NO_GPU = "no GPU in use"


@dataclass(frozen=True)
class ArmLike:
    id: str
    backend: str = "llamacpp"
    speculation: str = "none"
    speed: float = 200.0
    """Tokens per second."""
    failure: str | None = None
    quantisation: str = "bf16"


PLAIN = ArmLike("llamacpp-base")
DSPARK = ArmLike("llamacpp-dspark", speculation="dspark", speed=300.0)
DFLASH = ArmLike("llamacpp-dflash", speculation="dflash", speed=260.0)
OTHER_QUANT = ArmLike("vllm-dspark", "vllm", "dspark", 280.0, quantisation="nvfp4")
PROMPTS = tuple(f"p{number}" for number in range(12))
FAILED = ArmLike("vllm-base", "vllm", failure="vllm: the engine ended before it was ready")


def write_run(
    folder: Path,
    arms: Sequence[ArmLike] = (PLAIN, DFLASH, DSPARK),
    *,
    prompts: Sequence[str] = PROMPTS,
    modes: Sequence[dict[str, Any]] = tuple(MODES),
    recipe: str = "synthetic",
    recipe_text: str = "schema: 1\nname: synthetic\n",
    gpu: dict[str, Any] | None = None,
    title: str = "A patch",
    slower: float = 1.0,
    weights: str = "toy",
    blocks: int = 1,
) -> RunDirectory:
    """The first arm is the reference and has a second turn, `slower` times slower."""
    run = RunDirectory.create(folder)
    run.recipe_file.write_text(recipe_text, encoding="utf-8")
    write_json(run.plan_file, [_plan(arm, weights) for arm in arms])
    write_json(run.environment_file, _environment())
    write_json(run.run_file, {**_facts(arms, len(prompts), modes, recipe), "blocks": blocks})
    clock = 10**12
    measured = [(arm, repeat) for repeat in block_turns(blocks) for arm in arms]
    for turn, (arm, repeat) in enumerate([*measured, (arms[0], BOOKEND)]):
        speed = arm.speed / (slower if repeat == BOOKEND else 1.0)
        clock = _write_turn(run, arm, repeat, turn, clock, prompts, modes, speed, gpu, title)
    return run


def _write_turn(
    run: RunDirectory,
    arm: ArmLike,
    repeat: int,
    turn: int,
    clock: int,
    prompts: Sequence[str],
    modes: Sequence[dict[str, Any]],
    speed: float,
    gpu: dict[str, Any] | None,
    title: str,
) -> int:
    folder = run.turn(arm.id, repeat)
    folder.mkdir(parents=True)
    counters = []
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:
        for mode in modes if arm.failure is None else ():
            steps = accepted = 0
            for place, prompt in enumerate(prompts):
                one, clock = _sample(arm, mode["name"], repeat, prompt, place, clock, speed)
                file.write(one.to_json() + "\n")
                if one.server is not None:
                    steps += one.server.steps or 0
                    accepted += one.server.accepted or 0
            counted = _counted(arm, mode["name"], steps, accepted, gpu)
            counters.append({**counted, "requests": len(prompts)})
    if arm.failure is None:
        write_json(folder / "counters.json", counters)
    write_json(folder / "status.json", _status(arm, repeat, turn, title))
    (folder / "server.log").write_text("a log\n", encoding="utf-8")
    return clock + 10**9


def _sample(
    arm: ArmLike, mode: str, repeat: int, prompt: str, place: int, clock: int, speed: float
) -> tuple[Sample, int]:
    random_ = random.Random(f"{arm.id}/{mode}/{place}")  # the same whatever runs before it
    seconds = (TOKENS - 1) / (speed * random_.uniform(0.8, 1.25))
    first = clock + round(random_.uniform(5, 15) * 1e6)
    last = first + round(seconds * 1e9)
    told = None
    if arm.speculation != "none":
        # Steps that accept 2, 2, 0 and 4 drafts.
        told = RequestSpeculation(16, 16 * K, 32, (4, 0, 8, 0, 4))
    sample = Sample(
        request_id=f"{arm.id}/{mode}/c1/r{repeat}/{place}",
        prompt_id=prompt,
        arm=arm.id,
        mode=mode,
        concurrency=1,
        repeat=repeat,
        seed=place,
        prompt_tokens=8,
        t_send_ns=clock,
        chunks=((first, (5,)), (last, tuple(range(TOKENS - 1)))),
        t_end_ns=last + 1000,
        finish="length",
        server=told,
        server_prompt_tokens=8,
        server_completion_tokens=TOKENS,
        error=None,
    )
    return sample, last + 10**6


def _counted(
    arm: ArmLike, mode: str, steps: int, accepted: int, gpu: dict[str, Any] | None
) -> dict[str, Any]:
    drafted = arm.speculation != "none"
    nothing = {"steps": None, "drafted": None, "accepted": None, "per_position": None}
    zero = {"steps": 0, "drafted": 0, "accepted": 0, "per_position": [0] * K}
    server = {"pid": 7, "started": 1.5, "listens": True}
    per_position = [steps * 3 // 4, steps * 3 // 4, steps // 4, steps // 4]
    assert not drafted or sum(per_position) == accepted
    return {
        "mode": mode,
        "concurrency": 1,
        "draft_tokens": K if drafted else None,
        "verification": "exact-argmax" if drafted else "none",
        "before": zero if drafted else nothing,
        "after": {
            "steps": steps,
            "drafted": steps * K,
            "accepted": accepted,
            "per_position": per_position,
        }
        if drafted
        else nothing,
        "observed": {
            "server": {"before": server, "after": server},
            "gpu": gpu if gpu is not None else {"reason": NO_GPU},
            "load": {
                "threads": 8,
                "foreign_threads": 0.1,
                "average_before": 1.0,
                "average_after": 1.1,
            },
        },
    }


def _status(arm: ArmLike, repeat: int, turn: int, title: str) -> dict[str, Any]:
    return {
        "arm": arm.id,
        "repeat": repeat,
        "started": f"2026-11-30T12:{turn:02d}:00Z",
        "engine": {"backend": arm.backend, "version": "1.2"},
        "patches": [
            {
                "id": "a-patch",
                "title": title,
                "engine": arm.backend,
                "engine_version": "1.2",
                "files": [{"path": "a/file.py", "before": "0" * 64, "after": "f" * 64}],
            }
        ],
        "others_on_gpu": {"processes": None, "reason": NO_GPU},
        "startup_s": 1.5,
        "facts": {
            "/props": {"default_generation_settings": {"n_ctx": 256}},
            "/v1/models": {"data": [{"max_model_len": 256}]},
        },
        "weight_files": "gguf 00112233445566778899aabbccddeeff",
        "drafter_files": "none" if arm.speculation == "none" else "gguf 0123",
        "status": "ok" if arm.failure is None else "failed",
        "reason": arm.failure,
        "ended": f"2026-11-30T12:{turn:02d}:59Z",
    }


def _plan(arm: ArmLike, name: str) -> dict[str, Any]:
    weights = {"identity": name, "quantisation": arm.quantisation, "path": "x", "format": "gguf"}
    drafted = arm.speculation != "none"
    return {
        "id": arm.id,
        "backend": arm.backend,
        "engine_version": "1.2",
        "speculation": arm.speculation,
        "draft_tokens": K if drafted else None,
        "acceptance": "real",
        "expected_length": None,
        "target": weights,
        "drafter": {"weights": {**weights, "identity": f"toy-{arm.speculation}"}}
        if drafted
        else None,
        "conditions": {"prefix_cache": "off", "graph_mode": "none (CPU)", "engine_args": ""},
    }


def _facts(
    arms: Sequence[ArmLike], count: int, modes: Sequence[dict[str, Any]], recipe: str
) -> dict[str, Any]:
    return {
        "schema": 1,
        "recipe": recipe,
        "command": ["/usr/bin/museorch", "compare", "recipe.yaml", "--out", "a run"],
        "started": "2026-11-30T12:00:00Z",
        "harness": "0.1.0",
        "device": "cpu",
        "prompts": {"count": count, "sha256": "ab" * 32},
        "arms": [arm.id for arm in arms],
        "reference": arms[0].id,
        "bookend": True,
        "allow": [],
        "end_token_ids": [1, 2],
        "workload": {
            "prompts": "prompts.jsonl",
            "count": count,
            "output_tokens": TOKENS,
            "stop": "fixed",
            "modes": list(modes),
            "concurrency": [1],
            "warmup": 0,
            "seed": 1,
        },
        "serve": {"context_length": 256, "kv_dtype": "bf16", "threads": 1},
    }


def _environment() -> dict[str, Any]:
    return {
        "museorch": {"version": "0.1.0", "git": {"commit": "0" * 40, "dirty": False}},
        "python": "3.11.7",
        "platform": "Linux",
        "cpu": {"model": "A CPU", "cores": 4, "threads": 8, "usable": 8},
        "memory_bytes": 2**34,
        "load_average": [0.5, 0.5, 0.5],
        "gpus": [],
    }
