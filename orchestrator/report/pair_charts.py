"""Plots of comparisons: ratios with their intervals, and both sides of each pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.report import words
from orchestrator.report.chart import (
    Chart,
    Rows,
    Spec,
    axis_for,
    chart_id,
    scale_for,
    short,
    sized,
)
from orchestrator.report.facts import Phase, RunFacts, Turn, thin

MOST_PAIRS = 12
"""Pairs drawn in full; a sweep over K has a hundred."""


def ratios(facts: RunFacts, phase: Phase) -> Chart | None:
    """Every accepted comparison with its interval, and the band that drift covers."""
    names = words.arm_names(facts.result)
    rows: Rows = [
        ratio_row(row, f"{names[row['a']]} / {names[row['b']]}")
        for row in accepted(facts.result, phase)[: 2 * MOST_PAIRS]
    ]
    floor = words.floor(facts.result, *phase)
    return ratio_chart(chart_id("ratio", phase), rows, floor) if rows else None


def ratio_row(row: Mapping[str, Any], pair: str) -> dict[str, Any]:
    return {
        "pair": pair,
        "ratio": row["ratio"],
        "low": row["interval"][0],
        "high": row["interval"][1],
        "verdict": row["verdict"],
        "text": f"{words.ratio(row['ratio'])}x",
    }


def ratio_chart(name: str, rows: Rows, floor: float) -> Chart:
    """Rows as of `ratio_row`, one at least; a change up to `floor` counts as none."""
    sides = [row[side] for row in rows for side in ("low", "high")]
    ends = [1 / (1 + floor), 1 + floor, *(end for end in sides if 0 < end < math.inf)]
    pad = (max(ends) / min(ends)) ** 0.08
    scale = {"type": "log", "domain": [min(ends) / pad, max(ends) * pad**2], "nice": False}
    x = {
        "field": "ratio",
        "type": "quantitative",
        "scale": scale,
        "axis": axis_for(scale, "decode rate of the first over the second"),
    }
    y = {"field": "pair", "type": "nominal", "sort": None, "axis": None}
    tooltip = [
        {"field": "pair", "title": "pair"},
        {"field": "ratio", "format": ".3f"},
        {"field": "low", "title": "95 % from", "format": ".3f"},
        {"field": "high", "title": "95 % to", "format": ".3f"},
        {"field": "verdict"},
    ]
    color = {
        "field": "verdict",
        "type": "nominal",
        "scale": {
            "domain": ["no difference shown", "faster", "slower"],
            "range": "category",
        },
        "legend": {"columns": 3},
    }
    shape = {
        "field": "verdict",
        "type": "nominal",
        "scale": {
            "domain": ["no difference shown", "faster", "slower"],
            "range": ["circle", "triangle-right", "triangle-left"],
        },
    }
    layers = [
        {
            "data": {"values": [{"from": 1 / (1 + floor), "to": 1 + floor}]},
            "mark": {"type": "rect", "opacity": 0.12, "color": "gray"},
            "encoding": {
                "x": {"field": "from", "type": "quantitative", "scale": scale},
                "x2": {"field": "to"},
            },
        },
        {
            "data": {"values": [{"one": 1}]},
            "mark": {"type": "rule", "strokeDash": [4, 3]},
            "encoding": {"x": {"field": "one", "type": "quantitative"}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {
                "x": {"field": "low", "type": "quantitative"},
                "x2": {"field": "high"},
                "y": y,
                "color": color,
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": color, "shape": shape, "tooltip": tooltip},
        },
        *_labels({"align": "left", "dy": -15, "x": 0}, {"y": y, "text": {"field": "pair"}}),
        *_labels(
            {"align": "left", "dx": 8},
            {
                "x": {"field": "high", "type": "quantitative"},
                "y": y,
                "text": {"field": "text"},
            },
        ),
    ]
    text = "; ".join(
        f"{row['pair']} {row['text']} ({words.ratio(row['low'])} to {words.ratio(row['high'])})"
        for row in rows
    )
    spec = sized({"layer": layers}, 48 * len(rows))
    return Chart(name, "Ratios with 95 % intervals", text, rows, spec)


def _labels(mark: Spec, encoding: Spec) -> list[Spec]:
    """Text on a halo of the background, readable over lines."""
    return [
        {
            "mark": {"type": "text", "style": style, "limit": {"expr": "width"}, **mark},
            "encoding": encoding,
        }
        for style in ("halo", "label")
    ]


def accepted(result: Mapping[str, Any], phase: Phase) -> list[Mapping[str, Any]]:
    """Comparisons of a phase that have a ratio."""
    return [row for row in words.in_order(result, phase) if row["ratio"] is not None]


def scatters(facts: RunFacts, phase: Phase) -> Iterator[Chart]:
    """For each accepted comparison, every prompt's decode rate on both sides."""
    names = words.arm_names(facts.result)
    turns = {turn.arm: turn for turn in facts.of(phase)}
    for number, row in enumerate(accepted(facts.result, phase)[:MOST_PAIRS]):
        pairs = paired(turns[row["a"]], turns[row["b"]])
        if not pairs:
            continue
        above = sum(a > b for _, a, b in pairs)
        rows = [
            {"prompt": prompt, "a": short(a), "b": short(b), "ratio": short(a / b)}
            for prompt, a, b in thin(pairs, facts.most_points)
        ]
        spec = _scatter_spec(rows, names[row["a"]], names[row["b"]])
        title = f"{names[row['a']]} against {names[row['b']]}"
        text = f"{title}: the first was faster on {above} of {len(pairs)} prompts"
        yield Chart(f"{chart_id('pair', phase)}-{number}", title, text, rows, spec)


def paired(a: Turn, b: Turn) -> list[tuple[str, float, float]]:
    """(prompt, tok/s of a, tok/s of b) for prompts timed on both sides."""
    left, right = a.by_prompt(), b.by_prompt()
    return [
        (one.prompt, one.tok_s, two.tok_s)
        for key, one in left.items()
        if (two := right.get(key)) is not None and one.tok_s is not None and two.tok_s is not None
    ]


def _scatter_spec(rows: Rows, a: str, b: str) -> Spec:
    values = [row[side] for row in rows for side in ("a", "b")]
    scale = scale_for(values)
    low, high = min(values), max(values)
    pad = (high / low) ** 0.05 if scale["type"] == "log" else 1 + 0.05 * (1 - low / high)
    scale = {"type": scale["type"], "domain": [low / pad, high * pad], "nice": False}

    def axis(side: str, title: str) -> Spec:
        return {
            "field": side,
            "type": "quantitative",
            "scale": scale,
            "axis": axis_for(scale, title),
        }

    line = [{"a": low / pad, "b": low / pad}, {"a": high * pad, "b": high * pad}]
    return sized(
        {
            "layer": [
                {
                    "data": {"values": line},
                    "mark": {"type": "line", "strokeDash": [4, 3], "color": "gray"},
                    "encoding": {"x": axis("b", f"{b}, tok/s"), "y": axis("a", f"{a}, tok/s")},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.75},
                    "encoding": {
                        "x": axis("b", f"{b}, tok/s"),
                        "y": axis("a", f"{a}, tok/s"),
                        "color": {
                            "datum": "pair",
                            "legend": None,
                            "scale": {"domain": [0, "pair"]},
                        },
                        "tooltip": [
                            {"field": "prompt"},
                            {"field": "a", "title": a, "format": ",.4~g"},
                            {"field": "b", "title": b, "format": ",.4~g"},
                            {"field": "ratio", "format": ".3~g"},
                        ],
                    },
                },
            ]
        },
        260,
    )
