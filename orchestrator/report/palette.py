"""Colours and shapes of the plots.

Hues after Okabe and Ito (2008), made darker or lighter until each reaches 3:1 against its
background; a shape goes with every colour, so that nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Theme:
    background: str
    text: str
    faint: str
    grid: str
    arms: tuple[str, ...]


LIGHT = Theme(
    background="#ffffff",
    text="#1c2128",
    faint="#59616b",
    grid="#e3e6ea",
    arms=(
        "#5b6470",
        "#0072b2",
        "#c24e00",
        "#007f5f",
        "#a3478a",
        "#8f6a00",
        "#2a86b8",
        "#7a5230",
        "#5a4fcf",
    ),
)
DARK = Theme(
    background="#15181d",
    text="#e6e9ee",
    faint="#a2abb6",
    grid="#2c323a",
    arms=(
        "#aeb6c1",
        "#56b4e9",
        "#f5894a",
        "#35c79b",
        "#e39ac8",
        "#e6b53c",
        "#8fd0f2",
        "#c99c78",
        "#a9a2f5",
    ),
)
THEMES: Mapping[str, Theme] = {"light": LIGHT, "dark": DARK}
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")


def config(theme: Theme) -> dict[str, Any]:
    """Vega-Lite config: what depends on the theme is here and not in the plots."""
    return {
        "background": "transparent",
        "font": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
        "aria": False,  # one text alternative per plot, in place of one per point
        "view": {"stroke": None},
        "range": {"category": list(theme.arms), "symbol": list(SHAPES)},
        "axis": {
            "labelColor": theme.faint,
            "titleColor": theme.text,
            "titleFontWeight": "normal",
            "gridColor": theme.grid,
            "domainColor": theme.grid,
            "tickColor": theme.grid,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "labelLimit": 260,
        },
        "legend": {
            "labelColor": theme.text,
            "titleColor": theme.faint,
            "labelFontSize": 12,
            "orient": "top",
            "title": None,
            "labelLimit": 260,
            "symbolSize": 80,
        },
        "title": {"color": theme.text, "fontSize": 13, "anchor": "start"},
        "rule": {"color": theme.faint},
        "style": {"halo": {"stroke": theme.background, "strokeWidth": 4, "strokeJoin": "round"}},
        "text": {"color": theme.text, "fontSize": 12},
    }
