"""The plots as Vega-Lite specifications: plain data, the same for the page and for docs.

A chart names its rows by column, so that a page of 5000 prompts stays small. `describe` is the
text alternative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report import words
from orchestrator.report.facts import Phase, RunFacts, Turn, median, quantile, thin
from orchestrator.report.palette import SHAPES

Spec = dict[str, Any]
Rows = list[dict[str, Any]]
MOST_PAIRS = 12
"""Pairs drawn in full; a sweep over K has a hundred."""
LOG_FROM = 8.0
"""Values that spread wider than this factor get a logarithmic axis."""


@dataclass(frozen=True)
class Chart:
    id: str
    title: str
    describe: str
    rows: Rows
    spec: Spec

    def whole(self) -> Spec:
        """The specification with its data in it."""
        return {**self.spec, "data": {"values": self.rows}}


def ratios(facts: RunFacts, phase: Phase) -> Chart | None:
    """Every accepted comparison with its interval, and the band that drift covers."""
    names = words.arm_names(facts.result)
    rows: Rows = [
        {
            "pair": f"{names[row['a']]} / {names[row['b']]}",
            "ratio": row["ratio"],
            "low": row["interval"][0],
            "high": row["interval"][1],
            "verdict": row["verdict"],
            "text": f"{words.ratio(row['ratio'])}x",
        }
        for row in accepted(facts.result, phase)[: 2 * MOST_PAIRS]
    ]
    if not rows:
        return None
    floor = words.floor(facts.result, *phase)
    sides = [row[side] for row in rows for side in ("low", "high")]
    ends = [1 / (1 + floor), 1 + floor, *(end for end in sides if 0 < end < math.inf)]
    pad = (max(ends) / min(ends)) ** 0.08
    scale = {"type": "log", "domain": [min(ends) / pad, max(ends) * pad**2], "nice": False}
    x = {
        "field": "ratio",
        "type": "quantitative",
        "scale": scale,
        "axis": {
            "title": "decode rate of the first over the second",
            "grid": True,
            "format": ",~f",
            "labelOverlap": True,
        },
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
    spec = _spec({"layer": layers}, 48 * len(rows))
    return Chart(_id("ratio", phase), "Ratios with 95 % intervals", text, rows, spec)


def _labels(mark: Spec, encoding: Spec) -> list[Spec]:
    """Text on a halo of the background, readable over lines."""
    return [
        {"mark": {"type": "text", "style": style, **mark}, "encoding": encoding}
        for style in ("halo", "label")
    ]


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
    color, shape = _by_arm(facts)
    arms = [arm for arm, _ in drafted(facts.result, phase)]
    color["legend"] = shape["legend"] = {"values": arms, "symbolOpacity": 1}
    layers = [
        {
            "mark": {"type": "area", "opacity": 0.15},
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
        _id(kind, phase),
        titles[kind],
        "; ".join(heads),
        rows,
        _spec({"layer": layers}, 240),
    )


def drafted(result: Mapping[str, Any], phase: Phase) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(arm, speculation record) of every arm of a phase that drafted."""
    for arm in result["arms"]:
        for mode in arm["modes"]:
            if (mode["mode"], mode["concurrency"]) == phase and mode["speculation"] is not None:
                yield arm["id"], mode["speculation"]


def accepted(result: Mapping[str, Any], phase: Phase) -> list[Mapping[str, Any]]:
    """Comparisons of a phase that have a ratio."""
    return [row for row in words.in_order(result, phase) if row["ratio"] is not None]


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
                "value": _round(getattr(point, name)),
                "place": index * 0.618 % 1,  # spread over the band, the same in every rendering
            }
            for index, point in enumerate(thin(known, facts.most_points))
        ]
    scale = _scale([value for turn in turns for value in turn.values(name)])
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": unit, "format": ",~f", "labelOverlap": True},
    }
    y = {"field": "arm", "type": "nominal", "sort": None, "axis": {"title": None, "ticks": False}}
    color, _ = _by_arm(facts, legend=False)
    box = [
        {"field": "arm"},
        {"field": "n", "title": "prompts"},
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
        f"{turn.arm} median {words.number(median(turn.values(name)), 2)} {unit}, 90 % of prompts "
        f"within {words.number(quantile(turn.values(name), 0.05), 2)} to "
        f"{words.number(quantile(turn.values(name), 0.95), 2)}"
        for turn in turns
    )
    return Chart(_id(name, phase), title, text, rows, _spec({"layer": layers}, 46 * len(turns)))


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
            {"prompt": prompt, "a": _round(a), "b": _round(b), "ratio": _round(a / b)}
            for prompt, a, b in thin(pairs, facts.most_points)
        ]
        spec = _scatter_spec(rows, names[row["a"]], names[row["b"]])
        title = f"{names[row['a']]} against {names[row['b']]}"
        text = f"{title}: the first was faster on {above} of {len(pairs)} prompts"
        yield Chart(f"{_id('pair', phase)}-{number}", title, text, rows, spec)


def paired(a: Turn, b: Turn) -> list[tuple[str, float, float]]:
    """(prompt, tok/s of a, tok/s of b) for prompts timed on both sides."""
    right = {(p.prompt, p.seed): p.tok_s for p in b.points if p.tok_s is not None}
    return [
        (point.prompt, point.tok_s, right[point.prompt, point.seed])
        for point in a.points
        if point.tok_s is not None and (point.prompt, point.seed) in right
    ]


def _scatter_spec(rows: Rows, a: str, b: str) -> Spec:
    values = [row[side] for row in rows for side in ("a", "b")]
    scale = _scale(values)
    low, high = min(values), max(values)
    pad = (high / low) ** 0.05 if scale["type"] == "log" else 1 + 0.05 * (1 - low / high)
    scale = {"type": scale["type"], "domain": [low / pad, high * pad], "nice": False}

    def axis(side: str, title: str) -> Spec:
        return {
            "field": side,
            "type": "quantitative",
            "scale": scale,
            "axis": {"title": title, "format": ",~f", "labelOverlap": True, "tickCount": 5},
        }

    line = [{"a": low / pad, "b": low / pad}, {"a": high * pad, "b": high * pad}]
    return _spec(
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


def timeline(facts: RunFacts, phase: Phase) -> Chart | None:
    """Decode rate over the run, in the order in which requests were sent."""
    turns = [turn for repeat in (1, 2) for turn in facts.of(phase, repeat)]
    rows = [
        {
            "arm": turn.arm,
            "turn": "again, for drift" if turn.repeat > 1 else "measured",
            "prompt": point.prompt,
            "minutes": round(point.minutes, 5),
            "value": _round(point.tok_s),
        }
        for turn in turns
        for point in thin(turn.points, facts.most_points)
        if point.tok_s is not None
    ]
    if not rows or not facts.one_clock:
        return None
    color, shape = _by_arm(facts)
    color["legend"] = shape["legend"] = {"values": list(dict.fromkeys(t.arm for t in turns))}
    spec = {
        "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.8},
        "encoding": {
            "x": {
                "field": "minutes",
                "type": "quantitative",
                "axis": {"title": "minutes since the first request", "grid": False},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "scale": _scale([row["value"] for row in rows]),
                "axis": {"title": "tok/s", "format": ",~f", "labelOverlap": True, "tickCount": 6},
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
        f"{turn.arm}{' again' if turn.repeat > 1 else ''} from minute "
        f"{turn.points[0].minutes:.1f}: "
        f"median {words.number(median(turn.values('tok_s')), 1)} tok/s"
        for turn in sorted(turns, key=lambda turn: turn.points[0].minutes)
    )
    return Chart(_id("time", phase), "Decode rate over the run", text, rows, _spec(spec, 240))


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Of sorted values."""
    shares = {"p05": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
    return {name: _round(quantile(values, share)) for name, share in shares.items()}


def of_phase(facts: RunFacts, phase: Phase) -> dict[str, list[Chart]]:
    """Every chart of a phase by its place on the page; a place without data is empty."""
    one: dict[str, Chart | None] = {
        "ratio": ratios(facts, phase),
        "marginal": acceptance(facts, phase, "marginal"),
        "conditional": acceptance(facts, phase, "conditional"),
        **{name: spread(facts, phase, name) for name in VALUES},
        "time": timeline(facts, phase),
    }
    found = {place: [chart] if chart is not None else [] for place, chart in one.items()}
    return found | {"pair": list(scatters(facts, phase))}


def _by_arm(facts: RunFacts, *, legend: bool = True) -> tuple[Spec, Spec]:
    ids = [arm["id"] for arm in facts.result["arms"]]
    color: Spec = {"field": "arm", "type": "nominal", "scale": {"domain": ids}}
    marks = [SHAPES[index % len(SHAPES)] for index in range(len(ids))]
    shape: Spec = {"field": "arm", "type": "nominal", "scale": {"domain": ids, "range": marks}}
    if not legend:
        color["legend"] = None
    return color, shape


def _scale(values: Sequence[float]) -> Spec:
    low, high = min(values), max(values)
    if low > 0 and high / low > LOG_FROM:
        return {"type": "log", "nice": False, "domain": [low / 1.1, high * 1.1]}
    return {"type": "linear", "zero": low <= 0 or high / low > 2}


def _spec(body: Spec, height: int) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        **body,
    }


def _round(value: float | None) -> Any:
    """Five significant digits: what a plot can show."""
    if value is None or value == 0 or not math.isfinite(value):
        return value
    return round(value, 4 - math.floor(math.log10(abs(value))))


def _id(name: str, phase: Phase) -> str:
    mode = "".join(char if char.isalnum() else "-" for char in phase[0])
    return f"{name}-{mode}-{phase[1]}"
