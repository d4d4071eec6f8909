"""report.md: the answer and its tables for a pull request or a forum post."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.report import (
    audit,
    bridge,
    provenance,
    request_tables,
    roofline,
    tables,
    verification,
    words,
)
from orchestrator.report.facts import RunFacts
from orchestrator.report.headline import headlines
from orchestrator.report.html import commands
from orchestrator.report.pair_charts import MOST_PAIRS
from orchestrator.report.safe import markdown, plain
from orchestrator.report.tables import Table


def render(facts: RunFacts) -> str:
    """The whole text. Plots are in report.html; their numbers are here."""
    result = facts.result
    names = words.arm_names(result)
    blocks = [
        f"# {markdown(result['recipe'])}",
        markdown(f"{words.setting(result)}. {words.when(result['started'])}."),
        _list(headlines(result)),
    ]
    troubles = [*words.troubles(result), *words.doubts(result)]
    if troubles:
        blocks += ["**To be read with care**", _list(troubles)]
    for phase in words.phases(result):
        said = [sentence for _, sentence in words.verdicts(result, phase, names)]
        blocks += [
            f"## {markdown(words.phase_title(result, *phase))}",
            _list(said[:MOST_PAIRS]),
            _folded(f"{len(said) - MOST_PAIRS} more comparisons", _list(said[MOST_PAIRS:])),
            table(tables.arms(result, phase)),
            table(tables.pairs(result, phase)),
            table(bridge.splits(result, phase)),
            table(bridge.quality(result, phase)),
            table(tables.drafters(result, phase)),
            folded(tables.acceptance(result, phase)),
            folded(request_tables.spreads(facts, phase)),
            _list(list(words.drift_sentences(result, phase))),
            _list([words.floor_sentence(result, phase)]),
            _list(verification.sentences(result, phase)),
            folded(verification.table(result, phase)),
            folded(request_tables.by_context(result, phase)),
            folded(request_tables.timeline(facts, phase)),
            folded(tables.blocks(result, phase)),
            _list(roofline.said(result, phase)),
            folded(roofline.table(result, phase)),
            folded(roofline.costs(result, phase)),
            folded(provenance.machine(result, phase)),
            folded(provenance.certificate(result, phase)),
        ]
    blocks += [
        "## What everything rests on",
        *map(folded, audit.tables(result)),
        folded(provenance.claims(result)),
        _list(roofline.startup(result)),
        folded(provenance.environment(facts)),
        folded(provenance.patches(result)),
        "Run it again:",
        code(commands(facts)[0]),
        markdown(f"Made by museorch {result['harness']}."),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(content: Table, *, titled: bool = True) -> str:
    """A table with its title; empty without rows."""
    if not content.rows:
        return ""
    rule = ["---:" if numeric else "---" for numeric in content.numeric]
    lines = [
        _row([markdown(column) for column in content.columns]),
        _row(rule),
        *(_row([markdown(cell.text) for cell in row]) for row in content.rows),
    ]
    title = f"**{markdown(content.title)}**\n\n" if titled else ""
    notes = [markdown(line) for line in (content.note, content.reasons) if line]
    return "\n\n".join([title + "\n".join(lines), *notes])


def folded(content: Table) -> str:
    """A table that a reader opens."""
    return _folded(content.title, table(content, titled=False))


def _folded(title: str, inner: str) -> str:
    if not inner:
        return ""
    return f"<details><summary>{markdown(title)}</summary>\n\n{inner}\n\n</details>"


def code(text: str) -> str:
    """An indented block: unlike a fence, nothing in one line of text can end it."""
    return f"    {plain(text)}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {markdown(line)}" for line in lines)
