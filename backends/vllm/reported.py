"""What vLLM's log says of its settings: the config its engine core starts with."""

from __future__ import annotations

import re

from backends.base import DTYPE_WORDS

CONFIG = re.compile(r"Initializing a V\d LLM engine .*")


def reported(log: str) -> dict[str, str]:
    line = CONFIG.search(log)
    if line is None:
        return {}
    found: dict[str, str] = {}
    if kv := re.search(r"\bkv_cache_dtype=(\w+)", line[0]):
        own = re.search(r"\bdtype=torch\.(\w+)", line[0])
        name = own[1] if kv[1] == "auto" and own else kv[1]
        found["kv_dtype"] = DTYPE_WORDS.get(name, name)
    if prefix := re.search(r"\benable_prefix_caching=(True|False)", line[0]):
        found["prefix_cache"] = "on" if prefix[1] == "True" else "off"
    if graphs := re.search(r"'cudagraph_mode': <CUDAGraphMode\.(\w+)", line[0]):
        found["graph_mode"] = "none" if graphs[1] == "NONE" else "graphs"
    return found
