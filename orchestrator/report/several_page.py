"""The page of several runs: what of them is the same, then each shared arm, run against run."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.measuring.environment import museorch_version
from orchestrator.report import between, conditions, safe, several, words
from orchestrator.report.chart import Chart, chart_id
from orchestrator.report.facts import Phase
from orchestrator.report.frame import assemble
from orchestrator.report.html import without_secrets
from orchestrator.report.pair_charts import MOST_PAIRS, ratio_chart, ratio_row
from orchestrator.report.tables import Cell, Table, num, times

Row = Mapping[str, Any]


def render(runs: Sequence[between.Run]) -> str:
    """The whole page."""
    rows = safe.inert(between.comparisons(runs))
    names = between.labels(runs)
    drawn: list[Chart] = []
    phases = [_phase(runs, rows, phase, drawn) for phase in between.phases(runs)]
    return assemble(
        "several.html.j2",
        drawn,
        title="Runs side by side",
        harness=museorch_version(),
        setting=f"{', '.join(names)}. The later of two runs is measured against the earlier.",
        headlines=[*between.answers(runs), summary(rows)],
        phases=phases,
        arms=[safe.plain(arm) for arm in between.arms(runs)],
        overview=between.overview(runs),
        recipes=list(_recipes(runs, names)),
        paths=[safe.plain(str(run.path)) for run, _ in runs],
    )


def summary(rows: Sequence[Row]) -> str:
    """All comparisons in one sentence."""
    if not rows:
        return several.NOTHING
    counts = Counter(row["verdict"] for row in rows)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return f"Of {len(rows)} comparisons of an arm with itself in another run: {told}."


def _phase(
    runs: Sequence[between.Run], rows: Sequence[Row], phase: Phase, drawn: list[Chart]
) -> dict[str, Any]:
    mine = [row for row in rows if (row["mode"], row["concurrency"]) == phase]
    plot = [
        ratio_row(row, f"{row['a']} / {row['b']}") | {"arm": row["a"].partition(" in ")[0]}
        for row in mine
        if row["ratio"] is not None
    ][: 2 * MOST_PAIRS]
    floor = max((row["floor"] for row in mine if row["floor"] is not None), default=0.0)
    charts = [ratio_chart(chart_id("between", phase), plot, floor)] if plot else []
    drawn += charts
    metrics = between.metrics(runs)
    place = f"{phase[0]}, {phase[1]} at a time"
    found = [(row[0], *row[2:]) for row in metrics.rows if row[1].text == safe.plain(place)]
    columns = (metrics.columns[0], *metrics.columns[2:])
    return {
        "id": f"{between.phases(runs).index(phase)}",
        "name": safe.plain(place),
        "verdicts": [(row["verdict"], words.sentence(row, {})) for row in mine],
        "charts": charts,
        "pairs": _pairs(mine),
        "metrics": Table(metrics.title, columns, tuple(found)),
        "conditions": [
            table
            for arm in between.arms(runs)
            if _shared(table := between.conditions(runs, arm, phase))
        ],
    }


def _pairs(rows: Sequence[Row]) -> Table:
    found = []
    for row in rows:
        low, high = row["interval"] or (None, None)
        found.append(
            (
                Cell(f"{row['a']} / {row['b']}"),
                Cell(row["verdict"], mark=row["verdict"].split()[0]),
                *(times(value) for value in (row["ratio"], low, high)),
                num(row["pairs"], 0),
                Cell(
                    "matched" if row["ratio"] is not None else conditions.differing(row),
                    why=row["reason"],
                ),
            )
        )
    columns = ("pair", "verdict", "ratio", "95 % from", "to", "prompts", "conditions")
    return Table("Pairs", columns, tuple(found))


def _shared(conditions: Table) -> bool:
    return len(conditions.columns) > 2


def _recipes(runs: Sequence[between.Run], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """How each later recipe differs from the first, line by line."""
    texts = [without_secrets(safe.plain(run.recipe_text(), keep="\n")) for run, _ in runs]
    for name, text in zip(names[1:], texts[1:], strict=True):
        lines = difflib.unified_diff(
            texts[0].splitlines(), text.splitlines(), names[0], name, lineterm="", n=1
        )
        if told := "\n".join(lines):
            yield f"The recipe of {name} against that of {names[0]}", told
