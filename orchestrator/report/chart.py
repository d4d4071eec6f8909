"""What all plots share: plain Vega-Lite specifications, the same for the page and for docs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.palette import SHAPES

Spec = dict[str, Any]
Rows = list[dict[str, Any]]
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


def by_arm(facts: RunFacts, *, legend: bool = True) -> tuple[Spec, Spec]:
    ids = [arm["id"] for arm in facts.result["arms"]]
    color: Spec = {"field": "arm", "type": "nominal", "scale": {"domain": ids}}
    marks = [SHAPES[index % len(SHAPES)] for index in range(len(ids))]
    shape: Spec = {"field": "arm", "type": "nominal", "scale": {"domain": ids, "range": marks}}
    if not legend:
        color["legend"] = None
    return color, shape


def scale_for(values: Sequence[float]) -> Spec:
    low, high = min(values), max(values)
    if low > 0 and high / low > LOG_FROM:
        return {"type": "log", "nice": False, "domain": [low / 1.1, high * 1.1]}
    return {"type": "linear", "zero": low <= 0 or high / low > 2}


def axis_for(scale: Spec, title: str) -> Spec:
    """An axis of numbers on a scale as `scale_for` makes them."""
    axis: Spec = {"title": title, "format": ",~f", "labelOverlap": "greedy"}
    if scale["type"] == "log":
        return {**axis, "values": log_ticks(*scale["domain"])}
    return {**axis, "tickCount": 5}


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade within; even steps where that would be fewer than three.

    Vega labels a logarithmic axis by rules for whole decades, and leaves out 1 or all in between.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [lead * 10.0**decade for decade in decades for lead in (1, 2, 5)]
    found = [tick for tick in found if low <= tick <= high]
    if len(found) >= 3:
        return found
    unit = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = max(lead * unit for lead in (1, 2, 5) if lead * unit <= (high - low) / 3)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def sized(body: Spec, height: int) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        **body,
    }


def short(value: float | None) -> Any:
    """Five significant digits: what a plot can show."""
    if value is None or value == 0 or not math.isfinite(value):
        return value
    return round(value, 4 - math.floor(math.log10(abs(value))))


def chart_id(name: str, phase: Phase) -> str:
    mode = "".join(char if char.isalnum() else "-" for char in phase[0])
    return f"{name}-{mode}-{phase[1]}"
