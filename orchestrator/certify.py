"""The match certificate: may two arms be compared at all, and if not, what differs.

Every field of CONDITIONS must be equal, except what the comparison is about. Comparing a drafter
with none, two drafters, and two engines each have their own short list of fields that may differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["drafter-against-none", "drafter-against-drafter", "engine-against-engine"]

CONDITIONS: Mapping[str, str] = {
    "hardware": "GPU name, count, driver and power limit, or the CPU and its cores",
    "engine": "engine and version",
    "patches": "declared patches in the engine's environment",
    "weights": "checkpoint the target's weights come from",
    "quantisation": "quantisation of the target",
    "drafter": "checkpoint and quantisation of the drafter",
    "draft_tokens": "K as the engine uses it",
    "verification": "rule by which drafts are accepted",
    "acceptance": "real, or simulated by the engine",
    "kv_dtype": "data type of the KV cache",
    "context_per_slot": "tokens a slot can hold, as the server reports it where it does",
    "concurrency": "requests in flight",
    "threads": "CPU threads",
    "prefix_cache": "state of the prefix cache",
    "graph_mode": "eager or graphs",
    "engine_args": "further engine arguments of the recipe",
    "prompts": "hash of the prompts' token ids",
    "sampling": "temperature, top-p, top-k and seeds, as sent",
    "stop": "stop rule, end tokens and output length",
    "harness": "museorch version",
}

MAY_DIFFER: Mapping[Kind, frozenset[str]] = {
    "drafter-against-none": frozenset({"drafter", "draft_tokens", "verification", "patches"}),
    "drafter-against-drafter": frozenset({"drafter", "draft_tokens", "patches"}),
    "engine-against-engine": frozenset({"engine", "patches"}),
}
"""What is under test, and the patches that a drafter or an engine needs to run at all."""


@dataclass(frozen=True)
class Difference:
    field: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.a} against {self.b}"


@dataclass(frozen=True)
class Certificate:
    matched: bool
    differences: tuple[Difference, ...]
    """What differs and should not; empty when matched."""


def kind_of(a: Mapping[str, Any], b: Mapping[str, Any]) -> Kind:
    """What comparing two arms is about, from their backends and drafters."""
    if a["backend"] != b["backend"]:
        return "engine-against-engine"
    if "none" in (a["speculation"], b["speculation"]):
        return "drafter-against-none"
    return "drafter-against-drafter"


def certify(a: Mapping[str, Any], b: Mapping[str, Any], kind: Kind) -> Certificate:
    """Compare the gathered conditions of two phases; an absent field counts as unknown.

    Two unknowns are not equal: what was not observed cannot certify anything.
    """
    differences: list[Difference] = []
    for name in CONDITIONS:
        if name in MAY_DIFFER[kind]:
            continue
        left, right = a.get(name), b.get(name)
        if left is None or right is None or left != right:
            differences.append(
                Difference(
                    name,
                    "unknown" if left is None else left,
                    "unknown" if right is None else right,
                )
            )
    return Certificate(not differences, tuple(differences))
