"""The certificate in words: its fields, their values, and why a pair was refused."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

UNKNOWN = "—"
HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,52}\b")
WORDS = {
    "gpu_processes": "GPU processes",
    "verification": "how drafts are verified",
    "kv_dtype": "KV cache type",
    "stop": "stop rule",
    "harness": "museorch version",
    "validity": "an invalid arm",
}
WHOSE = {"a": "the first", "b": "the second", "ab": "both"}


def refusal(row: Mapping[str, Any], *, values: bool = True) -> str:
    """Why a pair was refused: what is wrong with an arm, what differs, and what is not known."""
    differences = row["certificate"]["differences"]
    invalid = [str(d["a"]) for d in differences if d["field"] == "validity"]
    unknown: dict[str, list[str]] = {}
    unlike = []
    for one in differences:
        if one["field"] == "validity":
            continue
        sides = [side for side in ("a", "b") if str(one[side]).endswith("unknown")]
        if sides:
            unknown.setdefault(WHOSE["".join(sides)], []).append(condition(one["field"]))
        else:
            shown = f" ({_unlike(one)})" if values else ""
            unlike.append(f"{condition(one['field'])}{shown}")
    parts = [
        *invalid,
        *([f"they differ in {', '.join(unlike)}"] if unlike else []),
        *(f"unknown of {whose}: {', '.join(fields)}" for whose, fields in unknown.items()),
    ]
    return "; ".join(parts) if parts else str(row["reason"])


def refusals(rows: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[str]:
    """Each reason once, with all pairs that it refuses and, where not in all phases, in which.

    Arms mostly differ in every phase alike, so a line for each pair and phase says little.
    """
    rows = list(rows)
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if row["verdict"] == "refused":
            pair = " against ".join(names.get(row[side], row[side]) for side in ("a", "b"))
            pairs.setdefault((refusal(row, values=False), pair), {})[_place(row)] = refusal(row)
    told: dict[tuple[str, tuple[str, ...]], dict[str, set[str]]] = {}
    for (kind, pair), found in pairs.items():
        told.setdefault((kind, tuple(found)), {})[pair] = set(found.values())
    phases = len({_place(row) for row in rows})
    for (kind, places), whys in told.items():
        where = f" in {' and '.join(places)}" if len(places) < phases else ""
        reasons = set().union(*whys.values())
        why = reasons.pop() if len(reasons) == 1 else kind
        yield f"Refused{where}, {why}: {'; '.join(whys)}."


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['mode']}, {row['concurrency']} at a time"


def _unlike(difference: Mapping[str, Any]) -> str:
    """Both values, long ones by their start where that already differs."""
    values = [show(difference[side]) for side in ("a", "b")]
    starts = [textwrap.shorten(value, 48, placeholder="…") for value in values]
    return " / ".join(values if starts[0] == starts[1] else starts)


def differing(row: Mapping[str, Any]) -> str:
    """The fields that refused a pair, by name only."""
    fields = (condition(d["field"]) for d in row["certificate"]["differences"])
    return ", ".join(fields) or str(row["reason"])


def held(row: Mapping[str, Any]) -> str:
    """Whether a pair was matched, is a bridge over what a recipe lets differ, or was refused."""
    if row["ratio"] is None:
        return differing(row)
    over = ", ".join(condition(d["field"]) for d in row["certificate"]["allowed"])
    return f"a bridge over {over}: no speedup" if over else "matched"


def condition(name: str) -> str:
    """A field of the certificate in words."""
    return WORDS.get(name, name.replace("_", " "))


def show(value: Any, *, whole: bool = False) -> str:
    """A condition's value as text; a hash by its start, unless the whole is wanted."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):  # of all conditions, only clocks
        return f"{value:.0f} MHz"
    text = UNKNOWN if value is None else "none" if value == "" else str(value)
    return text if whole else HASH.sub(r"\1…", text)
