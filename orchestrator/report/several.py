"""Several runs in one text, as Markdown, for the terminal, or as a page of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from orchestrator.report import between, markdown, safe, words
from orchestrator.report.terminal import WIDTH, hang


def text(runs: Sequence[between.Run]) -> str:
    """For a terminal of 80 columns."""
    told = [
        f"{name.text}: {recipe.text}, {started.text}, {state.text}"
        for name, recipe, started, _, _, state in between.overview(runs).rows
    ]
    blocks = ["\n".join(line for text in (*told, *between.answers(runs)) for line in hang(text))]
    found = safe.inert(between.comparisons(runs))
    arms = between.metrics(runs)
    for mode, concurrency in between.phases(runs):
        place = safe.plain(f"{mode}, {concurrency} at a time")
        head = f"{'arm, run':31}{'K':>4}" + "".join(f"{name:>9}" for name in SHORT)
        lines = [place, head]
        here = [row for row in arms.rows if row[1].text == place]
        for arm, group in itertools.groupby(here, key=lambda row: row[0].text):
            lines.append(arm[:WIDTH])
            lines += [
                f"  {run.text:29.29}{k.text:>4}" + "".join(f"{cell.text:>9}" for cell in values)
                for _, _, run, k, *values in group
            ]
        blocks.append("\n".join(lines))
        mine = (row for row in found if (row["mode"], row["concurrency"]) == (mode, concurrency))
        verdicts = [line for row in mine for line in hang(words.sentence(row, {}))]
        if verdicts:
            blocks.append("\n".join(verdicts))
    return "\n\n".join([*blocks, *([] if found else [NOTHING])]) + "\n"


SHORT = ("tok/s", "TTFT ms", "TPOT ms", "tau", "step ms")
NOTHING = "These runs share no arm, mode and concurrency, so there is nothing to compare."


def as_markdown(runs: Sequence[between.Run]) -> str:
    rows = safe.inert(between.comparisons(runs))
    told = [*between.answers(runs), *(between.sentences(rows) if rows else [NOTHING])]
    blocks = [
        "# Runs side by side",
        "\n".join(f"- {safe.markdown(sentence)}" for sentence in told),
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
