"""Pages of docs/ that are made from code: `python -m tools.docs` writes them.

A test compares them with what stands in docs/, so they cannot go stale.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.comparing.certify import CONDITIONS, MAY_DIFFER
from orchestrator.measuring.metrics import METRICS
from tools.recipe_page import recipe_page

DOCS = Path(__file__).resolve().parent.parent / "docs"


def metrics_page() -> str:
    """The metric table and the conditions of the match certificate."""
    lines = [
        "# Metrics and the match certificate",
        "",
        "Made from `orchestrator/measuring/metrics.py` and `orchestrator/comparing/certify.py` by "
        "`python -m tools.docs`.",
        "",
        "## Metrics",
        "",
        "Every value in result.json has a unit and `n`, what it rests on. Unknown is `null` with a "
        "reason, and prints as —.",
        "",
        "| name | unit | better | formula |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{m.name}` | {m.unit} | {m.better} | {m.formula} |" for m in METRICS]
    lines += [
        "",
        "`draft_tokens` (K) is the number of drafted tokens per step on every engine. vLLM's "
        "`num_speculative_tokens` and llama.cpp's `--spec-draft-n-max` mean the same; SGLang's "
        "block counts the anchor too, so it is K + 1.",
        "",
        "## Conditions",
        "",
        "Two arms get a ratio only where all of these are equal, but for what the comparison is "
        "about. A condition that could not be observed counts as different.",
        "",
        "| condition | what it is | may differ when comparing |",
        "|---|---|---|",
    ]
    for name, meaning in CONDITIONS.items():
        kinds = [kind.replace("-", " ") for kind, free in MAY_DIFFER.items() if name in free]
        lines.append(f"| `{name}` | {meaning} | {', '.join(kinds) if kinds else '—'} |")
    return "\n".join(lines) + "\n"


PAGES = {"metrics.md": metrics_page, "recipe.md": recipe_page}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
