"""What a step costs at each K: a plot, a table and a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.report import words
from orchestrator.report.chart import Chart, Rows, Spec, chart_id, sized
from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.palette import SHAPES
from orchestrator.report.tables import Cell, Table, num

TITLE = "What a step costs at each K"
NOTE = (
    "A step drafts K tokens and verifies K + 1. What it costs does not depend on how many are "
    "accepted, so arms with simulated acceptance tell it too; their output is meaningless."
)


def _of(result: Mapping[str, Any], phase: Phase) -> list[Mapping[str, Any]]:
    found = result["verification"]
    return [row for row in found if (row["mode"], row["concurrency"]) == phase]


def _name(curve: Mapping[str, Any]) -> str:
    drafter = words.DRAFTERS.get(curve["speculation"], curve["speculation"])
    engine = words.ENGINES.get(curve["backend"], curve["backend"])
    simulated = "" if curve["acceptance"] == "real" else ", simulated"
    return f"{engine} with {drafter}{simulated}"


def table(result: Mapping[str, Any], phase: Phase) -> Table:
    rows = []
    for curve in _of(result, phase):
        name, plain = Cell(_name(curve)), curve["plain_ms"]
        if plain is not None:
            start = (num(0, 0), num(plain, 3), Cell(words.UNKNOWN), num(None, 3), num(plain, 3))
            rows.append((name, Cell(curve["plain"]), *start, num(1.0, 2)))
        for point in curve["points"]:
            span = point["interval"]
            untold = "the engine does not tell how long it drafts"
            rows.append(
                (
                    name,
                    Cell(point["arm"]),
                    num(point["draft_tokens"], 0),
                    num(point["step_ms"], 3),
                    Cell(f"{span[0]:.3f} to {span[1]:.3f}" if span else words.UNKNOWN),
                    num(point["draft_ms"], 3, untold),
                    num(point["target_ms"], 3, untold),
                    num(point["step_ms"] / plain if plain else None, 2, "no arm without a drafter"),
                )
            )
    columns = (
        "curve",
        "arm",
        "K",
        "step (ms)",
        "95 %",
        "drafting (ms)",
        "the rest (ms)",
        "plain steps",
    )
    return Table(TITLE, columns, tuple(rows), NOTE)


def sentences(result: Mapping[str, Any], phase: Phase) -> Iterator[str]:
    """Each curve in a line."""
    for curve in _of(result, phase):
        points = [(p["draft_tokens"], p["step_ms"]) for p in curve["points"]]
        if curve["plain_ms"] is not None:
            points = [(0, curve["plain_ms"]), *points]
        shown = ", ".join(f"{step:.2f} ms at K {k}" for k, step in points)
        line, fixed = curve["line"], curve["draft_fixed_ms"]
        if fixed is not None:
            shown += (
                f"; by a line through them drafting costs {fixed:.2f} ms, and each token drafted "
                f"and verified {line['per_token_ms']:.3f} ms"
            )
        yield f"A step of {_name(curve)}: {shown}."


def chart(facts: RunFacts, phase: Phase) -> Chart | None:
    """Step time against K with its interval; K 0 is a step without a drafter."""
    rows: Rows = []
    for curve in _of(facts.result, phase):
        if curve["plain_ms"] is not None:
            rows.append({"curve": _name(curve), "k": 0, "step": curve["plain_ms"]})
        for point in curve["points"]:
            low, high = point["interval"] or (None, None)
            row = {"curve": _name(curve), "k": point["draft_tokens"], "step": point["step_ms"]}
            rows.append({**row, "low": low, "high": high, "drafting": point["draft_ms"]})
    if not rows:
        return None
    x: Spec = {
        "field": "k",
        "type": "quantitative",
        "axis": {"title": "K, drafted tokens", "tickMinStep": 1, "format": "d", "grid": False},
    }
    y: Spec = {
        "field": "step",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"title": "time of a step (ms)", "tickCount": 5},
    }
    names = list(dict.fromkeys(row["curve"] for row in rows))
    color: Spec = {"field": "curve", "type": "nominal", "scale": {"domain": names}}
    marks = [SHAPES[index % len(SHAPES)] for index in range(len(names))]
    shape: Spec = {**color, "scale": {"domain": names, "range": marks}}
    color["legend"] = shape["legend"] = {"title": None}
    tooltip = [
        {"field": "curve"},
        {"field": "k", "title": "K"},
        {"field": "step", "title": "step (ms)", "format": ".3f"},
        {"field": "low", "title": "95 % from", "format": ".3f"},
        {"field": "high", "title": "95 % to", "format": ".3f"},
        {"field": "drafting", "title": "drafting (ms)", "format": ".3f"},
    ]
    span = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": color}
    layers = [
        {
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y, "color": color},
        },
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": span},
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": color, "shape": shape, "tooltip": tooltip},
        },
    ]
    describe = " ".join(sentences(facts.result, phase))
    spec = sized({"layer": layers}, 240)
    return Chart(chart_id("verification", phase), TITLE, describe, rows, spec)
