"""What llama-server's log says of its settings, at --log-verbosity 4."""

from __future__ import annotations

import re
from collections.abc import Mapping

KV_CACHE = re.compile(r"llama_kv_cache: size = .*K \((\w+)\): .*V \((\w+)\):")
REUSED = re.compile(r"\| task (\d+) \| cached n_tokens = (\d+),")
DRAFTER = "loading draft model"
"""What follows is the drafter's."""


def reported(log: str, env: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    types = dict.fromkeys(one for pair in KV_CACHE.findall(log.split(DRAFTER)[0]) for one in pair)
    if types:
        found["kv_dtype"] = "/".join(types)
    # The first line of a task tells what it found in its slot, later ones its own progress.
    reused: dict[str, int] = {}
    for task, count in REUSED.findall(log):
        reused.setdefault(task, int(count))
    if reused:
        found["prefix_cache"] = "on" if any(reused.values()) else "off"
    if re.search(r"\bCUDA : .*\bUSE_GRAPHS = 1", log):
        # A build that can, unless it is told not to (ggml-cuda/common.cuh).
        found["graph_mode"] = "none" if "GGML_CUDA_DISABLE_GRAPHS" in env else "graphs"
    return found
