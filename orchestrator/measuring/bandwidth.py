"""Memory bandwidth of what the arms run on, measured before the first of them starts.

A large buffer is copied and counted twice, as read and as written, the way vendors count. On a GPU
an interpreter that has torch does it, on a CPU numpy with as many threads as the engines use.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from orchestrator.environments import engines
from orchestrator.measuring import gpu_copy
from orchestrator.measuring.environment import usable_threads
from orchestrator.planning.cards import ORDER, VISIBLE
from orchestrator.planning.plan import PlannedArm
from orchestrator.rundir import RunDirectory, read_json, write_json
from orchestrator.serving import launch

TIMEOUT_S = 240.0
CPU_BYTES = 512 << 20
"""Of each buffer: several times the last-level cache of most processors."""
CPU_REPEATS = 3


def keep(
    run: RunDirectory, planned: Sequence[PlannedArm], device: str, threads: int | None
) -> None:
    """Measure it and add it to environment.json, unless it is there."""
    machine = read_json(run.environment_file)
    if "bandwidth" not in machine:
        machine["bandwidth"] = measure(planned, device, threads)
        write_json(run.environment_file, machine)


def measure(planned: Sequence[PlannedArm], device: str, threads: int | None) -> dict[str, Any]:
    """`{"bytes_per_s": ..., "how": ...}`, or `{"bytes_per_s": None, "reason": ...}`."""
    if device == "cpu":
        return on_cpu(threads if threads is not None else usable_threads())
    return on_gpu(_interpreters(planned))


@lru_cache(maxsize=1)
def on_cpu(threads: int) -> dict[str, Any]:
    """Each thread copies its part of the buffer; numpy lets go of the interpreter meanwhile."""
    import numpy as np

    size = min(CPU_BYTES, psutil.virtual_memory().available // 8)
    source, target = np.ones(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8)
    edges = [size * part // threads for part in range(threads + 1)]
    parts = [slice(*edge) for edge in pairwise(edges)]
    seconds = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(1 + CPU_REPEATS):
            began = time.perf_counter()
            list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))
            seconds.append(time.perf_counter() - began)
    return _found(size, seconds[1:], f"{threads} threads, numpy {np.__version__}")


def on_gpu(interpreters: Iterator[tuple[str, Mapping[str, str]]]) -> dict[str, Any]:
    """By the first interpreter that can; each with its variables."""
    reasons = []
    for python, env in interpreters:
        try:
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [python, "-c", Path(gpu_copy.__file__).read_text(encoding="utf-8")],
                    cwd=folder,
                    env=launch.environment(os.environ, env, python),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=TIMEOUT_S,
                    check=True,
                )
            told = json.loads(done.stdout.splitlines()[-1])
            return _found(told["bytes"], told["seconds"], told["with"])
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
            reasons.append(f"{python}: {last}")
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, IndexError) as error:
            reasons.append(f"{python}: {error}")
    why = "; ".join(reasons) or "no interpreter with torch"
    return {"bytes_per_s": None, "reason": f"memory bandwidth was not measured: {why}"}


def _interpreters(planned: Sequence[PlannedArm]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The arms' own, then what is quick to ask, then engines that no arm uses."""
    for item in planned:
        if item.engine is not None and item.engine.packages is not None:
            yield str(item.engine.executable), item.plan.env
    env = {
        name: planned[0].plan.env[name] for name in (VISIBLE, ORDER) if name in planned[0].plan.env
    }
    if (python := shutil.which("python3")) is not None:
        yield python, env
    for engine in engines.installed():
        if engine.packages is not None and engine.device == "cuda":
            yield str(engine.executable), env


def _found(size: int, seconds: Sequence[float], how: str) -> dict[str, Any]:
    return {
        "bytes_per_s": 2 * size / min(seconds),
        "how": f"copies of {size / 2**20:.0f} MiB, read and written, best of {len(seconds)}: {how}",
        "seconds": list(seconds),
    }
