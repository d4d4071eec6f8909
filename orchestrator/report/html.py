"""report.html: one file that asks the network for nothing.

Plots are Vega-Lite specifications next to the libraries that draw them. Every text passes through
Jinja's autoescape, every JSON through `_json`; the page's own policy forbids anything else to run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.metrics import METRICS
from orchestrator.report import bridge, charts, provenance, tables, words
from orchestrator.report.chart import Chart, Rows
from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.libraries import plot_libraries
from orchestrator.report.pair_charts import MOST_PAIRS, accepted
from orchestrator.report.palette import THEMES, config
from orchestrator.report.request_charts import VALUES

PAGE = Path(__file__).parent / "page"
NAMES = r"(?:token|secret|password|passwd|api[_-]?key|credentials?)"
SECRETS = re.compile(
    rf"(?i)(\b[\w-]*{NAMES}\b[\"']?\s*[:=]\s*[\"']?|--[\w-]*{NAMES}[\"']?[\s,\"'-]+)"
    r"([^\s,}\]\"']+)"
)
"""A setting or a flag with such a name, and its value."""


def render(facts: RunFacts) -> str:
    """The whole page."""
    drawn: list[Chart] = []
    phases = [_phase(facts, phase, drawn) for phase in words.phases(facts.result)]
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
    return environment.get_template("page.html.j2").render(
        facts=facts,
        result=facts.result,
        setting=words.setting(facts.result),
        started=words.when(facts.result["started"]),
        headlines=list(words.headlines(facts.result)),
        troubles=list(words.troubles(facts.result)),
        doubts=list(words.doubts(facts.result)),
        phases=phases,
        audit=provenance.audit(facts.result),
        claims=provenance.claims(facts.result),
        environment=provenance.environment(facts),
        patches=provenance.patches(facts.result),
        metrics=METRICS,
        files=[(name, quote(name)) for name in facts.files],
        commands=commands(facts),
        recipe=without_secrets(facts.recipe),
        style=Markup(_asset("page.css")),
        libraries=Markup(libraries),
        script=Markup(script),
        data=_json(data),
        policy=_policy(libraries, script),
        palette=THEMES,
    )


def commands(facts: RunFacts) -> list[str]:
    """What to type to get this run again, and this page again."""
    given = facts.run.get("command") or ["museorch"]
    again = shlex.join([Path(given[0]).name, *given[1:]])
    return [without_secrets(again), "museorch report RUN --format html"]


def without_secrets(text: str) -> str:
    """The page is made to be sent to others, so what looks like a secret's value is left out."""
    return SECRETS.sub(r"\1[left out]", text)


def _phase(facts: RunFacts, phase: Phase, drawn: list[Chart]) -> dict[str, Any]:
    result = facts.result
    found = charts.of_phase(facts, phase)
    drawn += [chart for place in found.values() for chart in place]
    names = words.arm_names(result)
    most = max((len(turn.points) for turn in facts.of(phase)), default=0)
    return {
        "id": f"{words.phases(result).index(phase)}",
        "name": f"{phase[0]}, {phase[1]} at a time",
        "title": words.phase_title(result, *phase),
        "verdicts": [
            (row["verdict"], words.sentence(row, names)) for row in words.in_order(result, phase)
        ],
        "most_pairs": MOST_PAIRS,
        "more_pairs": max(0, len(accepted(result, phase)) - MOST_PAIRS),
        "arms": tables.arms(result, phase),
        "pairs": tables.pairs(result, phase),
        "bridges": bridge.splits(result, phase),
        "quality": bridge.quality(result, phase),
        "drafters": tables.drafters(result, phase),
        "acceptance": tables.acceptance(result, phase),
        "machine": provenance.machine(result, phase),
        "prompts": {name: tables.prompts(facts, phase, name) for name in VALUES},
        "prompt_pairs": tables.prompt_pairs(facts, phase),
        "spreads": tables.spreads(facts, phase),
        "timeline": tables.timeline(facts, phase),
        "blocks": tables.blocks(result, phase),
        "by_context": tables.by_context(result, phase),
        "certificate": provenance.certificate(result, phase),
        "drift": list(words.drift_sentences(result, phase)),
        "charts": found,
        "cut": f"{facts.most_points} of {most} prompts are drawn, evenly spread; numbers use all."
        if most > facts.most_points
        else None,
    }


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
