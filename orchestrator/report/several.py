"""Several runs in one text, as Markdown, for the terminal, or as a page of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from orchestrator.report import between, markdown, safe

WIDTH = 80


def text(runs: Sequence[between.Run]) -> str:
    """For a terminal of 80 columns."""
    blocks = [
        "\n".join(
            line
            for row in between.overview(runs).rows
            for line in _hang(", ".join(cell.text for cell in row))
        )
    ]
    arms = between.metrics(runs)
    for place in dict.fromkeys(row[1].text for row in arms.rows):
        rows = [row for row in arms.rows if row[1].text == place]
        head = f"{'arm':20} {'run':12}" + "".join(f"{name:>9}" for name in SHORT)
        cells = (
            f"{arm.text:20.20} {run.text:12.12}" + "".join(f"{cell.text:>9}" for cell in values)
            for arm, _, run, *values in rows
        )
        blocks.append("\n".join([place, head, *cells]))
    found = safe.inert(between.comparisons(runs))
    lines = [line for sentence in between.sentences(found) for line in _hang(sentence)]
    return "\n\n".join([*blocks, "\n".join(lines) or NOTHING]) + "\n"


SHORT = ("tok/s", "TTFT ms", "TPOT ms", "tau", "step ms")
NOTHING = "These runs share no arm, mode and concurrency, so there is nothing to compare."


def as_markdown(runs: Sequence[between.Run]) -> str:
    rows = safe.inert(between.comparisons(runs))
    lines = [f"- {safe.markdown(sentence)}" for sentence in between.sentences(rows)]
    blocks = [
        "# Runs side by side",
        "\n".join(lines) or NOTHING,
        markdown.table(between.overview(runs)),
        markdown.table(between.metrics(runs)),
    ]
    return "\n\n".join(blocks) + "\n"


def as_json(runs: Sequence[between.Run]) -> dict[str, Any]:
    """Each result as it is, and the comparisons between runs."""
    return {
        "runs": [
            {"run": name, "result": result}
            for name, (_, result) in zip(between.labels(runs), runs, strict=True)
        ],
        "comparisons": between.comparisons(runs),
    }


def _hang(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, WIDTH, subsequent_indent="  ")
