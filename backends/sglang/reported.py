"""What SGLang says of its settings: /server_info, and its log of the KV cache's type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backends.base import DTYPE_WORDS

KV_CACHE = re.compile(r"KV Cache is allocated\. dtype: torch\.(\w+)")


def reported(facts: Mapping[str, Any], log: str) -> dict[str, str]:
    info = facts.get("/server_info") or {}
    found: dict[str, str] = {}
    if kv := KV_CACHE.search(log):
        found["kv_dtype"] = DTYPE_WORDS.get(kv[1], kv[1])
    if isinstance(info.get("disable_radix_cache"), bool):
        found["prefix_cache"] = "off" if info["disable_radix_cache"] else "on"
    decode = (info.get("cuda_graph_config") or {}).get("decode") or {}
    if info.get("disable_cuda_graph") or decode.get("backend") == "disabled":
        found["graph_mode"] = "none"
    elif "disable_cuda_graph" in info:
        found["graph_mode"] = "graphs"
    return found
