"""The GPU recipes in the order of their worth: `python -m benchmarks.gpu.run` (`make bench-gpu`).

Each is an ordinary run directory under --out, made by `museorch compare`, and finished by it when
this is called again. Arms of an engine that is not here are left out, and the folder's name then
tells which engines ran.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from backends.base import Device
from backends.errors import EngineError, InputError, MuseorchError
from orchestrator.commands.run import ended_by_signals
from orchestrator.environments.engines import resolve
from orchestrator.job import prepare
from orchestrator.rundir import read_json

MUSEORCH = (sys.executable, "-m", "orchestrator.cli")


@dataclass(frozen=True)
class Task:
    name: str
    recipe: str
    backends: tuple[str, ...]


TASKS = (
    Task("iso-512", "muse-glimmer-30b/h200-iso-acceptance", ("vllm", "sglang")),
    Task("iso-512-llamacpp", "muse-glimmer-30b/h200-iso-acceptance-llamacpp", ("llamacpp",)),
    Task("settings-llamacpp", "muse-glimmer-30b/llamacpp-settings", ("llamacpp",)),
    Task("verification-llamacpp", "muse-glimmer-30b/h200-verification", ("llamacpp",)),
    Task("verification", "muse-glimmer-30b/h200-verification", ("vllm", "sglang")),
    Task("tiny-muse", "tiny-muse/gpu", ("llamacpp", "vllm", "sglang")),
    Task("iso-8k-llamacpp", "muse-glimmer-30b/h200-iso-acceptance-8k", ("llamacpp",)),
    Task("iso-8k", "muse-glimmer-30b/h200-iso-acceptance-8k", ("vllm", "sglang")),
)


def turns(out: Path) -> Iterator[tuple[str, float]]:
    """(backend, seconds) of every turn under `out` that succeeded."""
    for path in sorted(out.glob("*/arms/*/*/status.json")):
        status = read_json(path)
        if status["status"] == "ok":
            began, ended = (datetime.fromisoformat(status[key]) for key in ("started", "ended"))
            yield status["engine"]["backend"], (ended - began).total_seconds()


def usual_s(out: Path, backends: Sequence[str]) -> float | None:
    """The median turn on these engines, as far as any was measured; of the slowest engine."""
    found = {name: [s for backend, s in turns(out) if backend == name] for name in backends}
    return max((median(seconds) for seconds in found.values() if seconds), default=None)


def one(task: Task, out: Path, left_s: float | None, more: Sequence[str]) -> str:
    """What became of a task, in a few words."""
    job = prepare(task.recipe)
    device = job.recipe.device
    here = tuple(name for name in task.backends if _is_here(name, device))
    if not here:
        return f"left out: no {' or '.join(task.backends)} for {device} here"
    run = out / "-".join([task.name, *(here if here != task.backends else ())])
    if (run / "result.json").exists() and read_json(run / "result.json")["complete"]:
        return "complete since before"
    turn = usual_s(out, here)
    if left_s is not None and turn is not None and left_s < turn:
        return f"left out: a start of {'/'.join(here)} took {turn:.0f} s, {left_s:.0f} s are left"
    words = compare(task.recipe, [arm.id for arm in job.arms if arm.backend in here], run)
    told = f"{turn:.0f} s a start so far" if turn is not None else "no start of these timed yet"
    print(f"{task.name}, {told}: museorch {shlex.join([*words, *more])}", flush=True)
    code = _run([*MUSEORCH, *words, *more], left_s)
    if code is None:
        return "the time is up; what is whole is kept"
    return {0: "done", 1: "done, with failed arms"}.get(code, f"exit status {code}")


def compare(recipe: str, arms: Sequence[str], run: Path) -> list[str]:
    """What to say to museorch, for a new run or one that was begun."""
    chosen = [word for arm in arms for word in ("--arms", arm)]
    place = "--resume" if (run / "run.json").exists() else "--out"
    return ["compare", recipe, *chosen, place, str(run)]


def _is_here(backend: str, device: Device) -> bool:
    try:
        resolve(backend, device=device)
    except EngineError:
        return False
    return True


def _run(command: Sequence[str], left_s: float | None) -> int | None:
    """Exit status; None where the time was up. compare keeps what is whole when it is ended."""
    # In a session of its own, Ctrl-C reaches it once: from here.
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(left_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="Further words go to `compare`."
    )
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="end after so long")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="default: %(default)s")
    parser.add_argument("--only", action="append", metavar="NAME", help="leave out the others")
    options, more = parser.parse_known_args()
    names = [task.name for task in TASKS]
    if unknown := set(options.only or ()) - set(names):
        raise InputError(f"no task is called {min(unknown)}.", fix=f"Tasks: {', '.join(names)}.")
    until = None if options.budget is None else time.monotonic() + 60 * options.budget
    became: dict[str, str] = {}
    for task in TASKS:
        if options.only is None or task.name in options.only:
            left = None if until is None else max(0.0, until - time.monotonic())
            became[task.name] = (
                "left out: the time is up" if left == 0 else one(task, options.out, left, more)
            )
            print(f"{task.name}: {became[task.name]}", flush=True)
    return 0 if all(end in ("done", "complete since before") for end in became.values()) else 1


if __name__ == "__main__":
    try:
        with ended_by_signals():
            sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except MuseorchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
