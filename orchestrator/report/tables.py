"""The tables of a report, as plain cells; the page and Markdown each write them their own way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.report import conditions, words
from orchestrator.report.acceptance_chart import drafted
from orchestrator.report.facts import Phase


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None
    """The number behind the text, unrounded."""
    why: str | None = None
    """Why there is no number, or the text in full."""
    mark: str = ""
    """A class for the page: a verdict, `differs` or `hash`."""


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

    @property
    def reasons(self) -> str:
        """Why there is no number where there is none; empty where no cell says."""
        cells = (cell for row in self.rows for cell in row if cell.text == words.UNKNOWN)
        told = list(dict.fromkeys(cell.why for cell in cells if cell.why))
        return f"{words.UNKNOWN}: {'; '.join(told[:FEW])}." if told else ""


FEW = 5
"""Reasons told below a table."""


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
    split = any(_split(mode) for _, mode in found)
    shown = [e for e in words.METRICS if e[0] in units and (split or e[0] != "target_time_ms")]
    columns += [label + _unit(units[name]) for name, label, _ in shown]
    rows = []
    for arm, mode in found:
        row = [Cell(arm["id"]), num(arm["draft_tokens"], 0, "no speculation")]
        if mode is None:
            row += [Cell(arm["status"], why=arm["reason"])]
            row += [Cell(words.UNKNOWN)] * (len(shown) - 1)
        else:
            metrics = ((mode["metrics"][name], decimals) for name, _, decimals in shown)
            row += [num(one["value"], decimals, one.get("reason")) for one, decimals in metrics]
        rows.append(tuple(row))
    return _filled(Table("Arms", tuple(columns), tuple(rows)), columns[2:])


def _split(mode: Mapping[str, Any] | None) -> bool:
    """Whether the time of drafting is known, so that the rest of a step is news."""
    return mode is not None and mode["metrics"]["draft_time_ms"]["value"] is not None


def _unit(unit: str) -> str:
    return "" if unit == "1" else f" ({unit})"


def _filled(table: Table, names: Collection[str]) -> Table:
    """Without those of the named columns in which no row has a number."""
    used = [
        place
        for place, name in enumerate(table.columns)
        if name not in names or any(row[place].value is not None for row in table.rows)
    ]
    rows = tuple(tuple(row[place] for place in used) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in used), rows=rows)


def pairs(result: Mapping[str, Any], phase: Phase) -> Table:
    names = words.arm_names(result)
    rows = []
    for row in words.in_order(result, phase):
        low, high = row["interval"] if row["interval"] else (None, None)
        factors = row["factors"]
        split = factors.get("draft") != 1.0
        shows = "how many prompts would show 5 % is not known" if row["ratio"] else None
        rows.append(
            (
                Cell(f"{names[row['a']]} / {names[row['b']]}"),
                Cell(row["verdict"], mark=row["verdict"].split()[0]),
                times(row["ratio"]),
                times(low),
                times(high),
                times(row["throughput_ratio"]),
                times(factors.get("tau")),
                times(factors.get("step_time")),
                *(times(factors.get(part) if split else None, row["unsplit"]) for part in SPLIT),
                times(factors.get("remainder")),
                num(row["pairs"], 0),
                num(row["prompts_to_show_5_percent"], 0, shows),
                Cell(conditions.held(row), why=row["reason"]),
            )
        )
    columns = (
        "pair",
        "verdict",
        "ratio",
        "95 % from",
        "to",
        "of throughput",
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
        "The ratio is of what each request sees, beside it that of all output tokens over the "
        "time of the phase. ratio = tau factor x step-time factor x remainder: the drafter's "
        "quality, and what a step costs, which is verification x drafting where the two can be "
        "told apart; the remainder is mostly drafts accepted beyond a reply's end. Intervals are a "
        "bootstrap over prompts."
    )
    return _filled(Table("Pairs", columns, tuple(rows), note), MAY_BE_EMPTY)


SPLIT = ("target", "draft")
MAY_BE_EMPTY = ("of it verification", "of it drafting", "prompts to show 5 %")


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


def mode_of(arm: Mapping[str, Any], phase: Phase) -> Mapping[str, Any] | None:
    return next((m for m in arm["modes"] if (m["mode"], m["concurrency"]) == phase), None)
