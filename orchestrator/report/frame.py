"""One self-contained page: it asks the network for nothing, and runs nothing but its own scripts.

Plots are Vega-Lite specifications next to the libraries that draw them. Every text passes through
Jinja's autoescape, every JSON through `_json`; the page's own policy forbids anything else to run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.report.chart import Chart, Rows
from orchestrator.report.libraries import plot_libraries
from orchestrator.report.palette import THEMES, config

PAGE = Path(__file__).parent / "page"


def assemble(
    template: str,
    drawn: Sequence[Chart],
    *,
    title: str,
    harness: str,
    setting: str,
    headlines: Sequence[str],
    **given: Any,
) -> str:
    """The page of a template that extends frame.html.j2; `given` is what its own part shows."""
    libraries, script = plot_libraries(), _asset("page.js")
    data = {
        "charts": {chart.id: chart.spec for chart in drawn},
        "rows": {chart.id: _columns(chart.rows) for chart in drawn},
        "configs": {name: config(theme) for name, theme in THEMES.items()},
    }
    environment = Environment(
        loader=FileSystemLoader(PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        title=title,
        harness=harness,
        setting=setting,
        headlines=headlines,
        style=Markup(_asset("page.css")),
        libraries=Markup(libraries),
        script=Markup(script),
        data=_json(data),
        policy=_policy(libraries, script),
        **given,
    )


def _columns(rows: Rows) -> dict[str, list[Any]]:
    """Rows by column: the names once, not once a row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def _json(data: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _finite(data: Any) -> Any:
    """Infinity, as an end of an interval, is no JSON."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _policy(*scripts: str) -> str:
    """Content-Security-Policy: these scripts and no other, and no request to anywhere."""
    sums = (hashlib.sha256(text.encode()).digest() for text in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in sums)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")
