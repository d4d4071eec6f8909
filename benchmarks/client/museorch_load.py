"""museorch's client against a server: what `museorch compare` does with one phase's requests.

python -m benchmarks.client.museorch_load URL BACKEND REQUESTS MAX_TOKENS CONCURRENCY FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from backends import BACKENDS
from backends.base import Request, Sampling
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.sample import append

PROMPT = tuple(range(100, 108))


def main() -> None:
    url, backend, requests, max_tokens, concurrency, folder = sys.argv[1:]
    samples = Path(folder) / "samples.jsonl"
    run_phase(
        url,
        BACKENDS[backend],
        "mock",
        [
            Request(f"p{n}", PROMPT, int(max_tokens), Sampling(0.0), 1, (1,), True)
            for n in range(int(requests))
        ],
        concurrency=int(concurrency),
        context=PhaseContext(arm="mock", mode="greedy", repeat=0),
        on_sample=lambda sample: append(samples, sample),
        should_stop=lambda: False,
        timeout_s=120.0,
    )


if __name__ == "__main__":
    main()
