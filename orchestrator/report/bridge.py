"""What of a ratio is the engine and what quantisation, and what quantising costs in quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.report import words
from orchestrator.report.facts import Phase
from orchestrator.report.tables import Cell, Table, mode_of, num, times

PARTS = ("whole", "engine", "quantisation")
NOTE = (
    "ratio = engine x quantisation, each with its 95 % interval, on the prompts all three arms "
    "timed. It says where a difference comes from; it is no speed-up of anything."
)
QUALITY_NOTE = "Top-1 and divergence are against {reference}, over {positions} positions of {text}."


def _of(result: Mapping[str, Any], phase: Phase) -> list[Mapping[str, Any]]:
    return [row for row in result["bridges"] if (row["mode"], row["concurrency"]) == phase]


def sentences(result: Mapping[str, Any], phase: Phase) -> Iterator[str]:
    """One a split, for the terminal."""
    for row in _of(result, phase):
        pair = f"{row['a']} against {row['b']}"
        if row["reason"] is not None:
            yield f"{pair} is not split: {row['reason']}"
            continue
        engine, quantisation = (
            f"{words.ratio(row[name]['ratio'])} {name} ({_span(row[name])})" for name in PARTS[1:]
        )
        yield (
            f"{pair}, split at {row['via']}: {words.ratio(row['whole']['ratio'])}x = "
            f"{engine} x {quantisation}; no speed-up claim"
        )


def splits(result: Mapping[str, Any], phase: Phase) -> Table:
    rows = []
    for row in _of(result, phase):
        cells = [Cell(f"{row['a']} / {row['b']}", why=row["reason"]), Cell(row["via"])]
        for name in PARTS:
            part = row[name]
            cells.append(times(part["ratio"] if part else None))
            cells.append(Cell(_span(part) if part else words.UNKNOWN, why=row["reason"]))
        rows.append(tuple(cells))
    columns = ("pair", "split at", *(word for name in PARTS for word in (name, "95 %")))
    return Table("Engine and quantisation, apart", columns, tuple(rows), NOTE)


def _span(part: Mapping[str, Any]) -> str:
    low, high = part["interval"]
    return f"{words.ratio(low)} to {words.ratio(high)}"


def quality(result: Mapping[str, Any], phase: Phase) -> Table:
    """Each quantisation of an engine that has several, or whose quality was measured."""
    found = result["quality"]
    known = {row["quantisation"]: row for row in (found["rows"] if found else [])}
    arms: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for arm in result["arms"]:
        mode = mode_of(arm, phase)
        if mode is not None:
            place = (arm["backend"], mode["conditions"]["quantisation"])
            arms.setdefault(place, {}).setdefault(arm["speculation"], mode["metrics"])
    engines = [backend for backend, _ in arms]
    drafters = [name for name in words.DRAFTERS if any(name in one for one in arms.values())]
    rows = []
    for (backend, quantisation), metrics in arms.items():
        if engines.count(backend) < 2:
            continue
        row = known.get(quantisation, {}) if backend == "llamacpp" else {}
        why = found["reason"] if found and found["reason"] else "not measured in this run"
        plain = metrics.get("none")
        rate = plain["decode_tok_s"]["value"] if plain else None
        rows.append(
            (
                Cell(words.ENGINES.get(backend, backend)),
                Cell(quantisation),
                num(row.get("bytes"), 0, why),
                num(row.get("perplexity"), 3, why),
                Cell(words.percent(row.get("top1_agreement")), row.get("top1_agreement"), why),
                num(row.get("divergence"), 4, why),
                num(rate, 1, "no plain arm"),
                *(_length(metrics.get(name)) for name in drafters),
            )
        )
    columns = (
        "engine",
        "quantisation",
        "bytes",
        "perplexity",
        "top-1",
        "divergence (nats)",
        "plain decode rate (tok/s)",
        *(f"acceptance length, {words.DRAFTERS[name]}" for name in drafters),
    )
    note = None
    if known:
        positions = next(iter(known.values()))["positions"]
        note = QUALITY_NOTE.format(**found, positions=positions)
    return Table("Quality beside speed, by quantisation", columns, tuple(rows), note)


def _length(metrics: Mapping[str, Any] | None) -> Cell:
    if metrics is None:
        return num(None, 2, "no such arm")
    length = metrics["acceptance_length"]
    return num(length["value"], 2, length.get("reason"))
