"""Tables of the audits: greedy outputs token for token, and sampling against the distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.report import words
from orchestrator.report.tables import Cell, Table, num

Row = Mapping[str, Any]
AS_ASKED = "as asked"
MOST = 16
"""Pairs told one by one in a terminal."""


def tables(result: Mapping[str, Any]) -> list[Table]:
    return [table for table in (greedy(result), distribution(result)) if table.rows]


def greedy(result: Mapping[str, Any]) -> Table:
    columns = (
        *("pair", "mode", "at a time", "prompts", "identical", "first difference"),
        *("largest margin (nats)", "tokens a pass, first", "tokens a pass, second"),
    )
    note = (
        "Plain output against itself is the engine's own floor: verification runs other batch "
        "shapes, and near-ties can fall either way. The margin is the difference of both tokens' "
        "log-probabilities where outputs part, as an engine tells it: rounding turns small ones "
        "only. Tokens a pass: those after the first, over verification passes, on identical "
        "outputs."
    )
    rows = tuple(_greedy(row) for row in result["audit"]["greedy"])
    return Table("Greedy outputs, token for token", columns, rows, note)


def _greedy(row: Row) -> tuple[Cell, ...]:
    places = [f"{d['prompt']} at token {d['position']}" for d in row["divergences"]]
    text = "; ".join(places[:3]) + (f"; {len(places) - 3} more" if len(places) > 3 else "")
    rate = row["tokens_per_pass"]
    return (
        Cell(f"{row['a']} / {row['b']}"),
        Cell(row["mode"]),
        num(row["concurrency"], 0),
        num(row["prompts"], 0),
        num(row["identical"], 0),
        Cell(text or "nowhere", why="; ".join(places[:50]) or None),
        _margin(row),
        num(rate["a"] if rate else None, 3),
        num(rate["b"] if rate else None, 3),
    )


def _margin(row: Row) -> Cell:
    """The largest by size, of the differences that have one."""
    told = [d["margin"] for d in row["divergences"]]
    values = [abs(margin["value"]) for margin in told if margin["value"] is not None]
    reasons = dict.fromkeys(m["reason"] for m in told if m["value"] is None)
    why = f"of {len(values)} of {len(told)} differences" if told else "no difference"
    return num(max(values, default=None), 3, "; ".join([why, *reasons]))


def distribution(result: Mapping[str, Any]) -> Table:
    columns = (
        *("arm", "sampling", "positions", "verdict", "tokens", "surprise (nats a token)"),
        *("p, surprise", "p, fit", "p, corrected", "impossible", "would show"),
    )
    note = (
        "Tokens drawn, against the exact distribution of the same model in transformers. Verdicts "
        "follow the corrected p and tokens that the sampling rule excludes. Would show: the share "
        "of steps forced to the likeliest token that this many draws reveal nine times in ten."
    )
    rows = tuple(_distribution(row) for row in result["audit"]["distribution"])
    return Table("Sampling against the exact distribution", columns, rows, note)


def _distribution(row: Row) -> tuple[Cell, ...]:
    power, worst = row["power"]["forced"], row["worst"]
    furthest = worst and (
        f"furthest off: token {worst['token']} at place {worst['position']} of {worst['prompt']}, "
        f"{worst['drawn']} of {worst['of']}, expected {worst['expected']:.3f}"
    )
    return (
        Cell(row["arm"], mark="" if row["verdict"] == AS_ASKED else "differs"),
        Cell(row["mode"]),
        Cell(row["positions"]),
        Cell(row["verdict"], why=furthest),
        num(row["tokens"], 0),
        num(row["surprise"], 4),
        num(row["p_surprise"], 4),
        num(row["p_fit"], 4),
        num(row["p_adjusted"], 4),
        num(row["impossible"], 0),
        Cell(words.percent(power), power, None if power is not None else "text is deterministic"),
    )


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """For the terminal: every greedy pair, and of the sampling tests those that differ."""
    if result["audit"]["greedy"]:
        yield "Greedy outputs, token for token:"
    greedy = result["audit"]["greedy"]
    several = len({row["concurrency"] for row in greedy}) > 1
    told = greedy
    if len(greedy) > MOST:
        told = [row for row in greedy if row["divergences"]]
        yield f"  {len(greedy) - len(told)} of {len(greedy)} pairs are equal on every prompt"
    for row in told[:MOST]:
        yield f"  {_line(row)}" + (f" ({row['concurrency']} at a time)" if several else "")
    if len(told) > MOST:
        yield f"  {len(told) - MOST} more pairs are in report.md"
    rows = result["audit"]["distribution"]
    if rows:
        asked = sum(row["verdict"] == AS_ASKED for row in rows)
        yield f"Sampling against the exact distribution: {asked} of {len(rows)} tests as asked"
    for row in rows:
        if row["verdict"] != AS_ASKED:
            yield (
                f"  {row['arm']}, {row['mode']}, {row['positions']}: {row['verdict']} "
                f"(corrected p {row['p_adjusted']:.2g}, {row['impossible']} impossible tokens)"
            )


def _line(row: Row) -> str:
    text = f"{row['a']} against {row['b']}: {row['identical']} of {row['prompts']} equal"
    if row["divergences"]:
        first = ", ".join(f"{d['prompt']}@{d['position']}" for d in row["divergences"][:3])
        more = len(row["divergences"]) - 3
        text += f"; differ from {first}" + (f" and {more} more" if more > 0 else "")
        margin = _margin(row)
        if margin.value is not None:
            text += f"; largest margin {margin.text} nats"
    rate = row["tokens_per_pass"]
    if rate is not None:
        text += f"; on those equal {rate['a']:.3f} and {rate['b']:.3f} tokens a pass"
    return text
