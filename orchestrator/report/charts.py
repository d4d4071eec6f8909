"""Every plot of a phase, by its place on the page."""

from __future__ import annotations

from orchestrator.report import verification
from orchestrator.report.acceptance_chart import acceptance
from orchestrator.report.chart import Chart
from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.pair_charts import ratios, scatters
from orchestrator.report.request_charts import VALUES, spread, timeline


def of_phase(facts: RunFacts, phase: Phase) -> dict[str, list[Chart]]:
    """Every chart of a phase by its place on the page; a place without data is empty."""
    one: dict[str, Chart | None] = {
        "ratio": ratios(facts, phase),
        "marginal": acceptance(facts, phase, "marginal"),
        "conditional": acceptance(facts, phase, "conditional"),
        **{name: spread(facts, phase, name) for name in VALUES},
        "time": timeline(facts, phase),
        "verification": verification.chart(facts, phase),
    }
    found = {place: [chart] if chart is not None else [] for place, chart in one.items()}
    return found | {"pair": list(scatters(facts, phase))}
