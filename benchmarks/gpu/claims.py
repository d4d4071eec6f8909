"""Published claims beside the results of one GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.published.claim_check import Check, check
from orchestrator.published.claims import Published, load_claims
from orchestrator.report import words
from orchestrator.report.tables import Cell, Table, num

Result = Mapping[str, Any]
MATCHED = ("backend", "speculation", "quantisation", "concurrency")
"""Conditions that a step's time hangs on, of those that claims tell."""


def _on_this(found: Mapping[str, Result]) -> Iterator[tuple[str, Published, str, Check]]:
    """Claims about this hardware, each with the run that shares most with it."""
    for claim, published in load_claims().items():
        checks = [(name, check(published, result)) for name, result in found.items()]
        same = [
            (name, one)
            for name, one in checks
            if one is not None and any(c.field == "hardware" for c in one.of("shared"))
        ]
        if same:
            name, one = min(same, key=lambda told: len(told[1].of("differs")))
            yield claim, published, name, one


def _measured(found: Mapping[str, Result]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for name, result in found.items():
        for arm in result["arms"]:
            yield from ((name, arm["id"], mode) for mode in arm["modes"])


def nearest(found: Mapping[str, Result]) -> Table:
    """Each claim against the phase that shares most with it."""
    rows = [
        (
            Cell(claim),
            Cell(published.claim.headline()),
            Cell(f"{name}, {one.backend}, {one.mode}, {one.concurrency} at a time"),
            Cell(", ".join(c.field for c in one.of("differs")) or "nothing"),
            Cell(", ".join(c.field for c in one.of("unknown")) or "nothing"),
            Cell(
                "; ".join(f"{a.what}: {a.claimed:g}, here {a.measured:.4g}" for a in one.against)
                or words.UNKNOWN
            ),
        )
        for claim, published, name, one in _on_this(found)
    ]
    columns = ("claim", "published", "nearest phase", "differs in", "not known", "side by side")
    note = (
        "Numbers stand side by side only where every condition that matters is the same. With "
        "dummy weights the model is another: what such a run tells is what an acceptance is worth."
    )
    return Table("Claims about this hardware", columns, tuple(rows), note)


def steps(found: Mapping[str, Result]) -> Table:
    """The step that a published rate and acceptance length imply, and the step measured here.

    A step costs the same whatever text it verifies, so this holds for dummy weights too.
    """
    rows = []
    for claim, published, *_ in _on_this(found):
        asked = published.claim.conditions
        for number in published.claim.numbers:
            length = 1.0 if number.speculation == "none" else number.acceptance_length
            if number.value is None or length is None:
                continue
            wanted = (asked.engine, number.speculation, asked.quantisation, asked.concurrency)
            rows += [
                (
                    Cell(claim),
                    Cell(str(number)),
                    num(1000 * length / number.value, 1),
                    Cell(f"{name}, {arm}, {mode['mode']}"),
                    num(mode["metrics"]["step_time_ms"]["value"], 1),
                )
                for name, arm, mode in _measured(found)
                if wanted == tuple(mode["conditions"][what] for what in MATCHED)
            ]
    columns = ("claim", "published", "step it implies (ms)", "here", "step (ms)")
    note = "Implied: acceptance length / rate. K and context were not published with all of them."
    return Table("Steps that published numbers imply", columns, tuple(rows), note)
