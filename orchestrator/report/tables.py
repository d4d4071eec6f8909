"""The tables of a report, as plain cells; the page and Markdown each write them their own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.report import words
from orchestrator.report.acceptance_chart import drafted
from orchestrator.report.facts import Phase, RunFacts, median, quantile, thin
from orchestrator.report.pair_charts import MOST_PAIRS, accepted, paired
from orchestrator.report.request_charts import VALUES


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None
    """The number behind the text, unrounded."""
    why: str | None = None
    """Why there is no number, or the text in full."""
    mark: str = ""
    """A class for the page: a verdict, or `differs`."""


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str | None = None

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Of each column, whether it holds numbers."""
        return tuple(
            any(cell.value is not None for cell in column)
            for column in zip(*self.rows, strict=True)
        )


def num(value: float | None, decimals: int, why: str | None = None) -> Cell:
    return Cell(words.number(value, decimals), value, why)


def times(value: float | None, why: str | None = None) -> Cell:
    return Cell(words.UNKNOWN if value is None else words.ratio(value), value, why)


def arms(result: Mapping[str, Any], phase: Phase) -> Table:
    """Every metric of every arm; an arm without this phase says why."""
    columns = ["arm", "K"]
    found = [(arm, mode_of(arm, phase)) for arm in result["arms"]]
    units = {
        name: metric["unit"]
        for _, mode in found
        if mode is not None
        for name, metric in mode["metrics"].items()
    }
    shown = [entry for entry in words.METRICS if entry[0] in units]
    columns += [f"{label} ({units[name]})" for name, label, _ in shown]
    rows = []
    for arm, mode in found:
        row = [Cell(arm["id"]), num(arm["draft_tokens"], 0, "no drafter")]
        for name, _, decimals in shown:
            if mode is None:
                row.append(Cell(arm["status"], None, arm["reason"]))
                continue
            metric = mode["metrics"][name]
            row.append(num(metric["value"], decimals, metric.get("reason")))
        rows.append(tuple(row))
    return Table("Arms", tuple(columns), tuple(rows))


def pairs(result: Mapping[str, Any], phase: Phase) -> Table:
    names = words.arm_names(result)
    rows = []
    for row in words.in_order(result, phase):
        low, high = row["interval"] if row["interval"] else (None, None)
        factors = row["factors"]
        rows.append(
            (
                Cell(f"{names[row['a']]} / {names[row['b']]}"),
                Cell(row["verdict"], mark=row["verdict"].split()[0]),
                times(row["ratio"]),
                times(low),
                times(high),
                times(factors.get("tau")),
                times(factors.get("step_time")),
                times(factors.get("target"), row["unsplit"]),
                times(factors.get("draft"), row["unsplit"]),
                times(factors.get("remainder")),
                num(row["pairs"], 0),
                num(row["prompts_to_show_5_percent"], 0, "no number is enough, or none is known"),
                Cell(
                    "matched" if row["certificate"]["matched"] else words.differing(row),
                    why=row["reason"],
                ),
            )
        )
    columns = (
        "pair",
        "verdict",
        "ratio",
        "95 % from",
        "to",
        "tau factor",
        "step-time factor",
        "of it verification",
        "of it drafting",
        "remainder",
        "prompts",
        "prompts to show 5 %",
        "conditions",
    )
    note = (
        "ratio = tau factor x step-time factor x remainder. The tau factor is the drafter's "
        "quality, the step-time factor what a step costs: verification x drafting, where the two "
        "can be told apart. Intervals are a bootstrap over prompts."
    )
    return Table("Pairs", columns, tuple(rows), note)


def drafters(result: Mapping[str, Any], phase: Phase) -> Table:
    """Acceptance length and what it is made of, one row a drafter."""
    rows = []
    for arm, record in drafted(result, phase):
        steps, accepted = record["steps"], record["accepted"]
        span = record["acceptance_length_interval"]
        why = None if span else "the engine reports no steps per request, or there are too few"
        rows.append(
            (
                Cell(arm),
                num(1 + accepted / steps if steps else None, 2),
                num(span[0] if span else None, 2, why),
                num(span[1] if span else None, 2, why),
                num(steps, 0),
                num(record["drafted"], 0),
                num(accepted, 0),
                Cell(record["source"]),
            )
        )
    columns = (
        "arm",
        "acceptance length",
        "95 % from",
        "to",
        "steps",
        "drafted",
        "accepted",
        "counted by",
    )
    return Table("Drafters", columns, tuple(rows))


def acceptance(result: Mapping[str, Any], phase: Phase) -> Table:
    rows = []
    unit = ""
    for arm, record in drafted(result, phase):
        unit = record["interval_unit"]
        for position, count in enumerate(record["per_position"]):
            cells = [Cell(arm), num(position, 0), num(count, 0)]
            for kind in ("marginal", "conditional"):
                shares, spans = record[f"{kind}_acceptance"], record[f"{kind}_interval"]
                share = shares[position] if shares else None
                span = spans[position] if spans else None
                cells.append(Cell(words.percent(share), share))
                cells.append(
                    Cell(f"{100 * span[0]:.1f} to {100 * span[1]:.1f} %" if span else words.UNKNOWN)
                )
            rows.append(tuple(cells))
    columns = ("arm", "position", "accepted", "marginal", "95 %", "conditional", "95 %")
    return Table("Acceptance by position", columns, tuple(rows), acceptance_note(unit))


def acceptance_note(unit: str) -> str:
    note = "Intervals are Wilson's, 95 %"
    if unit == "requests":
        return f"{note}, widened by how much requests differ."
    return (
        f"{note}, with steps taken as independent; those of one prompt are not, so they are narrow."
    )


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


def blocks(result: Mapping[str, Any], phase: Phase) -> Table:
    """Each block's own numbers, where arms were started more than once."""
    rows = []
    for arm in result["arms"]:
        mode = mode_of(arm, phase)
        found = mode["blocks"] if mode is not None else []
        for number, block in enumerate(found if len(found) > 1 else [], start=1):
            rate, length = block["decode_tok_s"], block["acceptance_length"]
            rows.append((Cell(arm["id"]), num(number, 0), num(rate, 1), num(length, 2)))
    columns = ("arm", "block", "decode rate (tok/s)", "acceptance length")
    return Table("Block by block", columns, tuple(rows))


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


def mode_of(arm: Mapping[str, Any], phase: Phase) -> Mapping[str, Any] | None:
    return next((m for m in arm["modes"] if (m["mode"], m["concurrency"]) == phase), None)


def _cut(count: int, most: int) -> str | None:
    if count <= most:
        return None
    return f"{most} of {count} prompts, evenly spread; `--format csv` writes all of them."
