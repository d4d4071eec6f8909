"""report.html: everything there is to say of one run."""

from __future__ import annotations

import re
import shlex
from typing import Any
from urllib.parse import quote

from orchestrator.measuring.metrics import METRICS
from orchestrator.report import (
    audit,
    bridge,
    charts,
    provenance,
    request_tables,
    roofline,
    tables,
    verification,
    words,
)
from orchestrator.report.chart import Chart
from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.frame import assemble
from orchestrator.report.headline import headlines
from orchestrator.report.pair_charts import MOST_PAIRS, accepted
from orchestrator.report.request_charts import VALUES

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
    return assemble(
        "page.html.j2",
        drawn,
        title=facts.result["recipe"],
        harness=facts.result["harness"],
        setting=f"{words.setting(facts.result)}. {words.when(facts.result['started'])}.",
        headlines=list(headlines(facts.result)),
        facts=facts,
        result=facts.result,
        troubles=list(words.troubles(facts.result)),
        doubts=list(words.doubts(facts.result)),
        phases=phases,
        audits=audit.tables(facts.result),
        claims=provenance.claims(facts.result),
        startup=list(roofline.startup(facts.result)),
        environment=provenance.environment(facts),
        patches=provenance.patches(facts.result),
        metrics=METRICS,
        files=[(name, quote(name)) for name in facts.files],
        commands=commands(facts),
        recipe=without_secrets(facts.recipe),
    )


def commands(facts: RunFacts) -> list[str]:
    """What to type to get this run again, and this page again."""
    given = facts.run.get("command") or [""]
    again = shlex.join(["museorch", *given[1:]])
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
        "verdicts": list(words.verdicts(result, phase, names)),
        "most_pairs": MOST_PAIRS,
        "more_pairs": max(0, len(accepted(result, phase)) - MOST_PAIRS),
        "arms": tables.arms(result, phase),
        "pairs": tables.pairs(result, phase),
        "bridges": bridge.splits(result, phase),
        "quality": bridge.quality(result, phase),
        "drafters": tables.drafters(result, phase),
        "acceptance": tables.acceptance(result, phase),
        "roofline": roofline.table(result, phase),
        "roofline_said": list(roofline.said(result, phase)),
        "running": roofline.costs(result, phase),
        "machine": provenance.machine(result, phase),
        "prompts": {name: request_tables.prompts(facts, phase, name) for name in VALUES},
        "prompt_pairs": request_tables.prompt_pairs(facts, phase),
        "spreads": request_tables.spreads(facts, phase),
        "timeline": request_tables.timeline(facts, phase),
        "blocks": tables.blocks(result, phase),
        "by_context": request_tables.by_context(result, phase),
        "verification": verification.table(result, phase),
        "costs": list(verification.sentences(result, phase)),
        "floor": words.floor_sentence(result, phase),
        "certificate": provenance.certificate(result, phase),
        "drift": list(words.drift_sentences(result, phase)),
        "charts": found,
        "cut": f"{facts.most_points} of {most} prompts are drawn, evenly spread; numbers use all."
        if most > facts.most_points
        else None,
    }
