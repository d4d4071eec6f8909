"""The match certificate: may two arms be compared at all, and if not, what differs.

Every field of CONDITIONS must be equal, except what the comparison is about. Comparing a drafter
with none, two drafters, and two engines each have their own short list of fields that may differ.
A recipe can allow more; the comparison then is a bridge, labelled with what differs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "drafter-against-none", "drafter-against-drafter", "none-against-none", "engine-against-engine"
]

CONDITIONS: Mapping[str, str] = {
    "hardware": "GPU name, count, driver and power limit, or the CPU and its cores",
    "clocks": "median SM clock while a GPU worked, MHz, within 10 %; at the power limit, as low as "
    "the load makes it",
    "gpu_processes": "other processes on the GPU before the arm started",
    "engine": "engine and version",
    "patches": "declared patches in the engine's environment",
    "weights": "checkpoint the target's weights come from",
    "weight_files": "hash of the target's config, headers, sizes and spread blocks, in one format",
    "quantisation": "quantisation of the target",
    "drafter": "checkpoint and quantisation of the drafter",
    "drafter_files": "hash of the drafter's files, as for the target",
    "draft_tokens": "K as the engine uses it",
    "verification": "rule by which drafts are accepted",
    "acceptance": "real, or simulated by the engine",
    "kv_dtype": "data type of the KV cache",
    "context_per_slot": "tokens a slot can hold, as the server reports it where it does",
    "concurrency": "requests in flight",
    "threads": "CPU threads",
    "prefix_cache": "state of the prefix cache",
    "graph_mode": "eager or graphs",
    "engine_args": "further engine arguments and variables of the recipe",
    "prompts": "hash of the prompts' token ids",
    "sampling": "temperature, top-p, top-k and seeds, as sent",
    "stop": "stop rule, end tokens and output length",
    "harness": "museorch version",
}

_A_DRAFTER = frozenset({"drafter", "drafter_files", "draft_tokens"})
MAY_DIFFER: Mapping[Kind, frozenset[str]] = {
    "drafter-against-none": _A_DRAFTER | {"verification"},
    "drafter-against-drafter": _A_DRAFTER,
    "none-against-none": frozenset(),
    "engine-against-engine": frozenset({"engine", "patches"}),
}
"""What is under test. Arms of one engine share its environment, so also its patches."""

FOLLOWS: Mapping[str, frozenset[str]] = {
    "quantisation": frozenset({"weight_files"}),
    "weights": frozenset({"weight_files"}),
    "drafter": frozenset({"drafter_files"}),
}
"""What cannot stay equal where a bridge lets the key differ."""

NOTHING_DRAFTED = "none"
"""Acceptance of a plain arm on dummy weights, where a drafted arm's is always simulated."""

CLOCK_TOLERANCE = 0.1
"""GPUs of one setting boost to slightly different clocks; a locked clock is further off."""
AT_POWER_LIMIT = " MHz at the power limit"
"""After the clock of an arm whose load drew all the power that the GPU may have. Such a clock is
part of what the load costs, and only tells that the GPU was free to clock at least so high."""


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
    allowed: tuple[Difference, ...] = ()
    """What differs and was allowed by the recipe. With any, the ratio is no speedup."""


def kind_of(a: Mapping[str, Any], b: Mapping[str, Any]) -> Kind:
    """What comparing two arms is about, from their backends and drafters."""
    if a["backend"] != b["backend"]:
        return "engine-against-engine"
    if a["speculation"] == b["speculation"] == "none":
        return "none-against-none"
    if "none" in (a["speculation"], b["speculation"]):
        return "drafter-against-none"
    return "drafter-against-drafter"


def certify(
    a: Mapping[str, Any], b: Mapping[str, Any], kind: Kind, allow: Collection[str] = ()
) -> Certificate:
    """Compare the gathered conditions of two phases; an absent field counts as unknown.

    Two unknowns are not equal: what was not observed cannot certify anything.
    """
    tolerated = {*allow}.union(*(FOLLOWS.get(name, ()) for name in allow))
    differences: list[Difference] = []
    allowed: list[Difference] = []
    for name in CONDITIONS:
        if name in MAY_DIFFER[kind]:
            continue
        left, right = a.get(name), b.get(name)
        if left is not None and right is not None and same(name, left, right):
            continue
        found = Difference(
            name,
            "unknown" if left is None else left,
            "unknown" if right is None else right,
        )
        (allowed if name in tolerated else differences).append(found)
    return Certificate(not differences, tuple(differences), tuple(allowed))


def same(name: str, left: Any, right: Any) -> bool:
    """Whether two known values of a condition agree."""
    if name == "clocks":
        return _clocks_alike(left, right)
    if name == "acceptance":
        return _alike(left, right)
    if name in ("weight_files", "drafter_files"):
        # Files of two formats never have equal bytes; that they hold one checkpoint is for
        # `weights` and `drafter` to say.
        return bool(left == right or left.split()[0] != right.split()[0])
    return bool(left == right)


def _clocks_alike(left: float | str, right: float | str) -> bool:
    """A clock lowered by the power limit, which `hardware` holds equal, is no other setting."""
    told = [str(side).partition(AT_POWER_LIMIT) for side in (left, right)]
    try:
        (low, limited), (high, _) = sorted((float(mhz), bool(words)) for mhz, words, _ in told)
    except ValueError:  # words instead of a clock
        return left == right
    return limited or high - low <= CLOCK_TOLERANCE * high


def _alike(left: str, right: str) -> bool:
    """Equal lengths, however they come about, and one curve of rates cut at two K."""
    one, two = (re.split(" (?:by|of) rates ", text) for text in (left, right))
    if one[0] == two[0] or NOTHING_DRAFTED in (left, right):
        return True
    short, long = sorted((f"{one[-1]} ", f"{two[-1]} "), key=len)
    return len(one) == len(two) == 2 and long.startswith(short)
