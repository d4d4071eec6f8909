"""The answer of a run in a few sentences, verdict first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.report import conditions, words

MOST = 6
"""Sentences of verdicts; with more phases and engines only the best of each phase is told."""
MOST_SWEPT = 12
"""Sentences of drafters over several concurrencies; with more the best of each phase is told."""
FEW = 2
"""Refusals told in full."""

Row = Mapping[str, Any]


def headlines(result: Mapping[str, Any]) -> Iterator[str]:
    """What each drafter gains; then what was refused and what is missing."""
    names = words.arm_names(result)
    swept = list(_swept(result, names))
    yield from swept if 0 < len(swept) <= MOST_SWEPT else _best(result, names)
    if not result["comparisons"]:
        yield "Nothing was compared: a comparison needs two arms that were measured."
    yield from _refusals(result, names)
    if not result["complete"]:
        yield "This run is incomplete: it ended before every arm was measured."


def _swept(result: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Each drafter over several concurrencies: with many requests drafting may cost speed."""
    phases = sorted(words.phases(result), key=lambda phase: phase[1])
    if len({concurrency for _, concurrency in phases}) == 1:
        return
    for mode in dict.fromkeys(mode for mode, _ in words.phases(result)):
        pairs: dict[tuple[str, str], list[Row]] = {}
        for phase in phases:
            for row in _drafted(result, phase) if phase[0] == mode else ():
                pairs.setdefault((row["a"], row["b"]), []).append(row)
        for (a, b), rows in pairs.items():
            first, *more = rows
            told = [_at(first, " at a time", "95 % interval "), *map(_at, more)]
            bridge = f" This is {first['reason']}." if first["reason"] else ""
            yield f"{mode}: {names[a]} against {names[b]}: {'; '.join(told)}.{bridge}"


def _at(row: Row, unit: str = "", interval: str = "") -> str:
    low, high = map(words.ratio, row["interval"])
    place = f"{row['verdict']} at {row['concurrency']}{unit}"
    return f"{place}, {words.ratio(row['ratio'])}x ({interval}{low} to {high})"


def _best(result: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """The best drafter of each engine against none, phase by phase."""
    groups = [
        (phase, group) for phase in words.phases(result) for group in _by_engine(result, phase)
    ]
    if len(groups) > MOST:
        groups = [(phase, _drafted(result, phase)) for phase in words.phases(result)]
    several = len(words.phases(result)) > 1
    for (mode, concurrency), rows in groups:
        if not rows:
            continue
        told = words.sentence(max(rows, key=lambda row: float(row["ratio"])), names)
        if len(rows) > 1:
            told = f"{told.removesuffix('.')}; the best of {len(rows)}."
        yield f"{mode}, {concurrency} at a time: {told}" if several else told


def _drafted(result: Mapping[str, Any], phase: tuple[str, int]) -> list[Row]:
    """Drafters against none, bridges left out; where there are none, what was compared at all."""
    rows = [row for row in words.in_order(result, phase) if row["ratio"] is not None]
    kind = words.KIND_ORDER[0]
    real = [row for row in rows if row["kind"] == kind and not row["certificate"]["allowed"]]
    return real or rows


def _by_engine(result: Mapping[str, Any], phase: tuple[str, int]) -> Sequence[list[Row]]:
    backends = {arm["id"]: arm["backend"] for arm in result["arms"]}
    groups: dict[str, list[Row]] = {}
    for row in _drafted(result, phase):
        groups.setdefault(backends[row["a"]], []).append(row)
    return list(groups.values())


def _refusals(result: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """In full while they are few, else their number and what they have in common."""
    refused = [row for row in result["comparisons"] if row["verdict"] == "refused"]
    told: dict[str, list[str]] = {}
    for row in refused:
        place = f"{row['mode']}, {row['concurrency']} at a time"
        told.setdefault(words.sentence(row, names), []).append(place)
    if len(told) <= FEW:
        phases = len(words.phases(result))
        for sentence, places in told.items():
            where = places[0] if len(places) == 1 else f"{len(places)} of {phases} phases"
            yield sentence if len(places) == phases else f"{where}: {sentence}"
        return
    reasons = dict.fromkeys(conditions.differing(row) for row in refused)
    fields = dict.fromkeys(field for text in reasons for field in text.split(", "))
    why = f": {', '.join(fields)}" if len(fields) <= MOST else ""
    yield f"{len(refused)} of {len(result['comparisons'])} comparisons were refused{why}."
