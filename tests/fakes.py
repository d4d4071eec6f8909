"""Plans and requests for the fake engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from backends.base import PORT, LaunchPlan, Request, Sampling

FAKE_ENGINE = Path(__file__).parent / "fake_engine.py"

GREEDY = Sampling(0.0)
TEMPERATURE = Sampling(1.0, 0.95, 64)


def fake_plan(
    backend: str = "vllm",
    *flags: str,
    start_timeout_s: float = 60.0,
    env: dict[str, str] | None = None,
) -> LaunchPlan:
    """Starts the fake engine in the given engine's format."""
    return LaunchPlan(
        backend=backend,
        argv=(
            *(sys.executable, "-I", "-S", str(FAKE_ENGINE)),
            *("--format", backend, "--host", "127.0.0.1", "--port", PORT),
            *flags,
        ),
        env=env or {},
        health_path="/health",
        start_timeout_s=start_timeout_s,
        fact_paths=("/version", "/absent"),
    )


def request(number: int = 0, *, tokens: int = 12, sampling: Sampling = GREEDY) -> Request:
    return Request(
        id=f"p{number}",
        prompt_ids=(0, 5, 9 + number),
        max_tokens=tokens,
        sampling=sampling,
        seed=number,
        end_token_ids=(1, 2),
        fixed_length=True,
    )


PROBE = request(99, tokens=2)


def gone(pid: int) -> bool:
    """No such process, or only its remains waiting to be collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether `condition` comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
