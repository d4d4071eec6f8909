"""Rows of both audits: greedy outputs token for token, and sampling as it was tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from orchestrator.comparing import margins
from orchestrator.comparing.audit import Margin, audit_greedy
from orchestrator.comparing.blocks import Measured
from orchestrator.planning.plan import REAL
from orchestrator.result.pairs import pairs
from orchestrator.rundir import BOOKEND, RunDirectory, read_json


def distribution_rows(run: RunDirectory) -> list[Any]:
    path = run.distribution_file
    return list(read_json(path)["rows"]) if path.exists() else []


def greedy_rows(
    run: RunDirectory, measured: Sequence[Measured], last: Sequence[Measured]
) -> list[dict[str, Any]]:
    """Each drafter against its plain arm, engines against each other, plain against itself.

    `last` is of the reference arm's last turn.
    """
    greedy = {
        (m.arm, m.mode, m.concurrency): m
        for m in measured
        if m.conditions["sampling"].startswith("T 0,") and m.conditions["acceptance"] == REAL
    }
    rows = []

    def near(*turns: tuple[str, int]) -> partial[Margin]:
        return partial(margins.margin, [margins.read(run.turn(*turn), turn[0]) for turn in turns])

    for a, b in pairs(list(greedy.values())):
        margin = near((b.arm, 1), (a.arm, 1))
        audit = audit_greedy(a.arm, b.arm, a.concurrency, a.first.samples, b.first.samples, margin)
        rows.append({"mode": a.mode, **asdict(audit)})
    for late in last:
        early = greedy.get((late.arm, late.mode, late.concurrency))
        if early is not None and late.phase.samples:
            name, margin = f"{late.arm} again", near((late.arm, BOOKEND))
            left, right = early.first.samples, late.phase.samples
            audit = audit_greedy(late.arm, name, late.concurrency, left, right, margin)
            rows.append({"mode": late.mode, **asdict(audit)})
    return rows
