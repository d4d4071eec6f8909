"""Acceptance by draft position, drafters overlaid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.report import words
from orchestrator.report.chart import Chart, Rows, by_arm, chart_id, sized
from orchestrator.report.facts import Phase, RunFacts


def acceptance(facts: RunFacts, phase: Phase, kind: str) -> Chart | None:
    """Acceptance by position of every drafter. `kind` is `marginal` or `conditional`."""
    rows: Rows = []
    for arm, record in drafted(facts.result, phase):
        shares = record[f"{kind}_acceptance"]
        bounds = record[f"{kind}_interval"]
        for position, share in enumerate(shares or []):
            span = bounds[position] if bounds else None
            if share is not None:
                rows.append(
                    {
                        "arm": arm,
                        "position": position,
                        "share": share,
                        "low": span[0] if span else None,
                        "high": span[1] if span else None,
                    }
                )
    if not rows:
        return None
    x = {
        "field": "position",
        "type": "quantitative",
        "axis": {"title": "draft position", "tickMinStep": 1, "format": "d", "grid": False},
        "scale": {"domain": [-0.3, max(row["position"] for row in rows) + 0.3], "nice": False},
    }
    y = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "axis": {"title": "accepted", "format": ".0%", "tickCount": 5},
    }
    tooltip = [
        {"field": "arm"},
        {"field": "position"},
        {"field": "share", "title": "accepted", "format": ".1%"},
        {"field": "low", "title": "95 % from", "format": ".1%"},
        {"field": "high", "title": "95 % to", "format": ".1%"},
    ]
    color, shape = by_arm(facts)
    arms = [arm for arm, _ in drafted(facts.result, phase)]
    color["legend"] = shape["legend"] = {"values": arms, "symbolOpacity": 1}
    layers = [
        {
            "mark": {"type": "area", "opacity": 0.15 if len(arms) <= 3 else 0.07},
            "encoding": {
                "x": x,
                "y": {"field": "low", "type": "quantitative"},
                "y2": {"field": "high"},
                "color": color,
            },
        },
        {
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y, "color": color},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": color, "shape": shape, "tooltip": tooltip},
        },
    ]
    heads = []
    for arm, record in drafted(facts.result, phase):
        shown = [words.percent(share) for share in (record[f"{kind}_acceptance"] or [])[:4]]
        heads.append(f"{arm}: {', '.join(shown)} at positions 0 to {len(shown) - 1}")
    titles = {
        "marginal": "Marginal: accepted at this position, of all steps",
        "conditional": "Conditional: accepted, where all before were accepted",
    }
    return Chart(
        chart_id(kind, phase),
        titles[kind],
        "; ".join(heads),
        rows,
        sized({"layer": layers}, 240),
    )


def drafted(result: Mapping[str, Any], phase: Phase) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(arm, speculation record) of every arm of a phase that drafted."""
    for arm in result["arms"]:
        for mode in arm["modes"]:
            if (mode["mode"], mode["concurrency"]) == phase and mode["speculation"] is not None:
                yield arm["id"], mode["speculation"]
