"""Tables of single requests, behind their plots, and of requests by length of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.report import words
from orchestrator.report.facts import Phase, RunFacts, median, quantile, thin
from orchestrator.report.pair_charts import MOST_PAIRS, accepted, paired
from orchestrator.report.request_charts import VALUES
from orchestrator.report.tables import Cell, Table, mode_of, num, times


def prompts(facts: RunFacts, phase: Phase, name: str) -> Table:
    """One value of every prompt, arms side by side."""
    turns = facts.of(phase)
    title, unit = VALUES[name]
    by_prompt: dict[tuple[str, int], dict[str, float | None]] = {}
    for turn in turns:
        for key, point in turn.by_prompt().items():
            by_prompt.setdefault(key, {})[turn.arm] = getattr(point, name)
    rows = [
        (Cell(prompt), *(num(values.get(turn.arm), 2) for turn in turns))
        for (prompt, _), values in thin(list(by_prompt.items()), facts.most_rows)
    ]
    columns = ("prompt", *(turn.arm for turn in turns))
    return Table(f"{title}, {unit}", columns, tuple(rows), _cut(len(by_prompt), facts.most_rows))


def spreads(facts: RunFacts, phase: Phase) -> Table:
    """Quantiles over prompts, of all of them."""
    rows = []
    for name, (_, unit) in VALUES.items():
        for turn in facts.of(phase):
            values = turn.values(name)
            if values:
                cells = [num(quantile(values, share), 2) for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
                rows.append(
                    (Cell(turn.arm), Cell(LABELS[name]), Cell(unit), num(len(values), 0), *cells)
                )
    columns = ("arm", "value", "unit", "requests", "5 %", "25 %", "median", "75 %", "95 %")
    return Table("Spread over requests", columns, tuple(rows))


LABELS = {"tok_s": "decode rate", "ttft_ms": "TTFT", "tpot_ms": "TPOT"}


def prompt_pairs(facts: RunFacts, phase: Phase) -> Table:
    """Per prompt, the ratio of decode rates of every accepted pair."""
    names = words.arm_names(facts.result)
    turns = {turn.arm: turn for turn in facts.of(phase)}
    columns = ["prompt"]
    by_prompt: dict[str, dict[str, float]] = {}
    for row in accepted(facts.result, phase)[:MOST_PAIRS]:
        column = f"{names[row['a']]} / {names[row['b']]}"
        columns.append(column)
        for prompt, a, b in paired(turns[row["a"]], turns[row["b"]]):
            by_prompt.setdefault(prompt, {})[column] = a / b
    rows = [
        (Cell(prompt), *(times(values.get(column)) for column in columns[1:]))
        for prompt, values in thin(list(by_prompt.items()), facts.most_rows)
    ]
    return Table(
        "Ratio of decode rates, prompt by prompt",
        tuple(columns),
        tuple(rows),
        _cut(len(by_prompt), facts.most_rows),
    )


def timeline(facts: RunFacts, phase: Phase) -> Table:
    rows = [
        (
            Cell(turn.arm),
            Cell(turn.name),
            num(turn.points[0].minutes, 2),
            num(turn.points[-1].minutes, 2),
            num(len(turn.points), 0),
            num(sum(point.error for point in turn.points), 0),
            num(median(turn.values("tok_s")), 1),
        )
        for turn in facts.starts(phase)
    ]
    columns = ("arm", "turn", "from minute", "to minute", "requests", "failed", "median tok/s")
    return Table("Turns, in the order they ran", columns, tuple(rows))


def by_context(result: Mapping[str, Any], phase: Phase) -> Table:
    """Metrics by length of the prompt, where prompts differ enough in length."""
    rows = []
    for arm in result["arms"]:
        mode = mode_of(arm, phase)
        for row in mode["by_context"] if mode is not None else []:
            known = row["metrics"]
            span = row["acceptance_length_interval"]
            upper = f"{row['to'] - 1:,}" if row["to"] is not None else "more"
            length = known["acceptance_length"]
            rows.append(
                (
                    Cell(arm["id"]),
                    Cell(f"{row['from']:,} to {upper}"),
                    num(row["requests"], 0),
                    num(known["decode_tok_s"]["value"], 1),
                    num(known["ttft_ms"]["value"], 1),
                    num(known["tpot_ms"]["value"], 2),
                    num(length["value"], 2, length.get("reason")),
                    Cell(f"{span[0]:.2f} to {span[1]:.2f}" if span else words.UNKNOWN),
                )
            )
    columns = (
        "arm",
        "prompt tokens",
        "requests",
        "decode rate (tok/s)",
        "TTFT (ms)",
        "TPOT (ms)",
        "acceptance length",
        "95 %",
    )
    return Table("By length of the prompt", columns, tuple(rows))


def _cut(count: int, most: int) -> str | None:
    if count <= most:
        return None
    return f"{most} of {count} prompts, evenly spread; `--format csv` writes all of them."
