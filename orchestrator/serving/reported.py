"""What a server says of its own settings, against what its argv asked for.

A setting that the server reports is a fact; one that it does not is only what was asked for, and a
certificate says which. Where the two contradict each other the arm is not what the recipe wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from backends import BACKENDS

Source = Literal["reported", "set"]
FIELDS = ("kv_dtype", "prefix_cache", "graph_mode", "context_per_slot")
LEFT_TO_ENGINE = "engine default"
LOG_BYTES = 8_000_000
"""Of a log, from its start: settings are told early, and a log can be huge."""


def told(plan: Mapping[str, Any], facts: Mapping[str, Any], log: Path) -> dict[str, Any]:
    """Those of FIELDS that the server tells, in the recipe's words."""
    engine = BACKENDS[plan["backend"]]
    text = ""
    if log.exists():
        with log.open("rb") as file:
            text = file.read(LOG_BYTES).decode("utf-8", "replace")
    slot = engine.slot_context(facts)
    found: dict[str, Any] = dict(engine.reported(facts, text, plan.get("env", {})))
    return found if slot is None else {**found, "context_per_slot": slot}


def settle(
    asked: Mapping[str, Any], found: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Source], list[str]]:
    """(conditions, where each comes from, contradictions in words).

    `asked` holds every one of FIELDS as the plan set it, and the recipe's own engine_args. Those
    come last, and what they change is wanted: then the report is taken, and contradicts nothing.
    """
    conditions = {name: found.get(name, asked[name]) for name in FIELDS}
    # One word for one state: a plan says `none (CPU)` where a server says `none`.
    if conditions["graph_mode"] == str(asked["graph_mode"]).split(" (")[0]:
        conditions["graph_mode"] = asked["graph_mode"]
    # What nobody told of a slot is not known: engines cut it down to what they support.
    conditions["context_per_slot"] = found.get("context_per_slot")
    sources: dict[str, Source] = {
        name: "reported" if name in found else "set"
        for name in FIELDS
        if conditions[name] is not None
    }
    problems = [
        f"the server reports {name.replace('_', ' ')} {found[name]}, {asked[name]} was asked for"
        for name in FIELDS
        if name in found
        and not asked.get("engine_args")
        and _contradicts(name, asked[name], conditions[name])
    ]
    return conditions, sources, problems


def _contradicts(name: str, asked: Any, is_: Any) -> bool:
    if name == "context_per_slot":
        return bool(is_ < asked)  # engines round up
    return asked not in (is_, LEFT_TO_ENGINE)
