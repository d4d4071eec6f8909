"""Plots of single requests: how they spread, and how they went over the run."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report import words
from orchestrator.report.chart import (
    Chart,
    Rows,
    Spec,
    axis_for,
    by_arm,
    chart_id,
    scale_for,
    short,
    sized,
)
from orchestrator.report.facts import Phase, RunFacts, median, quantile, thin

VALUES = {
    "tok_s": ("Decode rate of each prompt", "tok/s"),
    "ttft_ms": ("Time to first token (TTFT) of each prompt", "ms"),
    "tpot_ms": ("Time per output token (TPOT) of each prompt", "ms"),
}


def spread(facts: RunFacts, phase: Phase, name: str) -> Chart | None:
    """Each request as a point; median, quartiles and the middle 90 % of all of them."""
    turns = [turn for turn in facts.of(phase) if turn.values(name)]
    if not turns:
        return None
    title, unit = VALUES[name]
    rows: Rows = []
    for turn in turns:
        values = turn.values(name)
        rows.append({"arm": turn.arm, "of": "all", "n": len(values)} | quantiles(values))
        known = [point for point in turn.points if getattr(point, name) is not None]
        rows += [
            {
                "arm": turn.arm,
                "prompt": point.prompt,
                "value": short(getattr(point, name)),
                "place": round(
                    index * 0.618 % 1, 3
                ),  # spread over the band, the same in every rendering
            }
            for index, point in enumerate(thin(known, facts.most_points))
        ]
    scale = scale_for([value for turn in turns for value in turn.values(name)])
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": scale,
        "axis": axis_for(scale, unit),
    }
    y = {"field": "arm", "type": "nominal", "sort": None, "axis": {"title": None, "ticks": False}}
    color, _ = by_arm(facts, legend=False)
    box = [
        {"field": "arm"},
        {"field": "n", "title": "requests"},
        *(
            {"field": key, "title": label, "format": ",.4~g"}
            for key, label in (
                ("p05", "5 %"),
                ("q1", "25 %"),
                ("median", "median"),
                ("q3", "75 %"),
                ("p95", "95 %"),
            )
        ),
    ]

    def of_all(mark: Spec, start: str, end: str | None) -> Spec:
        encoding: Spec = {
            "x": {**x, "field": start},
            "y": y,
            "color": color,
            "tooltip": box,
        }
        if end is not None:
            encoding["x2"] = {"field": end}
        return {
            "transform": [{"filter": "datum.of == 'all'"}],
            "mark": mark,
            "encoding": encoding,
        }

    layers = [
        of_all({"type": "rule", "strokeWidth": 1.5}, "p05", "p95"),
        of_all({"type": "bar", "height": 20, "opacity": 0.25}, "q1", "q3"),
        {
            "transform": [{"filter": "datum.of != 'all'"}],
            "mark": {"type": "circle", "size": 22, "opacity": 0.65 if len(rows) < 1000 else 0.3},
            "encoding": {
                "x": x,
                "y": y,
                "yOffset": {
                    "field": "place",
                    "type": "quantitative",
                    "scale": {"domain": [-0.4, 1.4]},
                },
                "color": color,
                "tooltip": [
                    {"field": "arm"},
                    {"field": "prompt"},
                    {"field": "value", "title": unit, "format": ",.4~g"},
                ],
            },
        },
        of_all({"type": "tick", "thickness": 3, "size": 26, "opacity": 1}, "median", None),
    ]
    text = "; ".join(
        f"{turn.arm} median {words.number(median(turn.values(name)), 2)} {unit}, 90 % of them "
        f"within {words.number(quantile(turn.values(name), 0.05), 2)} to "
        f"{words.number(quantile(turn.values(name), 0.95), 2)}"
        for turn in turns
    )
    return Chart(
        chart_id(name, phase), title, text, rows, sized({"layer": layers}, 46 * len(turns))
    )


def timeline(facts: RunFacts, phase: Phase) -> Chart | None:
    """Decode rate over the run, in the order in which requests were sent."""
    turns = facts.starts(phase)
    rows = [
        {
            "arm": turn.arm,
            "turn": turn.name,
            "prompt": point.prompt,
            "minutes": round(point.minutes, 5),
            "value": short(point.tok_s),
        }
        for turn in turns
        for point in thin(turn.points, facts.most_points)
        if point.tok_s is not None
    ]
    if not rows or not facts.one_clock:
        return None
    color, shape = by_arm(facts)
    color["legend"] = shape["legend"] = {"values": list(dict.fromkeys(t.arm for t in turns))}
    scale = scale_for([row["value"] for row in rows])
    spec = {
        "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.8},
        "encoding": {
            "x": {
                "field": "minutes",
                "type": "quantitative",
                "axis": {
                    "title": "minutes since the first request",
                    "grid": False,
                    "tickCount": 8,
                },
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "scale": scale,
                "axis": axis_for(scale, "tok/s"),
            },
            "color": color,
            "shape": shape,
            "tooltip": [
                {"field": "arm"},
                {"field": "turn"},
                {"field": "prompt"},
                {"field": "minutes", "format": ".2f"},
                {"field": "value", "title": "tok/s", "format": ",.4~g"},
            ],
        },
    }
    text = "; ".join(
        f"{turn.arm}, {turn.name}, from minute "
        f"{turn.points[0].minutes:.1f}: "
        f"median {words.number(median(turn.values('tok_s')), 1)} tok/s"
        for turn in turns
    )
    return Chart(chart_id("time", phase), "Decode rate over the run", text, rows, sized(spec, 240))


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Of sorted values."""
    shares = {"p05": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
    return {name: short(quantile(values, share)) for name, share in shares.items()}
