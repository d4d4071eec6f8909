"""Which phases are compared, the comparisons, and the drift of the reference arm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.certify import certify, kind_of
from orchestrator.comparing.compare import Comparison, compare, decode_ratio
from orchestrator.comparing.noise import block_floor, drift_floor
from orchestrator.comparing.verification import Curve, step_time_split


def pairs(measured: list[Measured]) -> Iterator[tuple[Measured, Measured]]:
    """(a, b) worth comparing: kinds of drafting in one engine on one quantisation, else engines
    and quantisations with the same kind of drafting."""
    for b, a in itertools.combinations(measured, 2):
        if (a.mode, a.concurrency) != (b.mode, b.concurrency):
            continue
        one, two = a.conditions, b.conditions
        drafting = one["speculation"] != two["speculation"]
        if drafting and (one["backend"], one["quantisation"]) != (
            two["backend"],
            two["quantisation"],
        ):
            continue
        yield (b, a) if one["speculation"] == "none" and two["speculation"] != "none" else (a, b)


def drift_floors(drift: list[dict[str, Any]], blocks: int) -> Callable[[Measured], float]:
    """The relative change in a phase that counts as no difference, by the drift there."""

    def floor(one: Measured) -> float:
        # Of a steady drift, an arm's place within the blocks is all that is left.
        return drift_floor(drift, one.mode, one.concurrency) / blocks

    return floor


def compare_all(
    measured: list[Measured],
    allow: Collection[str],
    floor: Callable[[Measured], float],
    costs: Sequence[Curve],
) -> Iterator[Comparison]:
    for a, b in sorted(pairs(measured), key=lambda pair: (pair[0].concurrency, pair[0].mode)):
        kind = kind_of(a.conditions, b.conditions)
        found = [f"{x.arm}: {problem}" for x in (a, b) for problem in x.problems]
        compared = compare(
            a.arm,
            b.arm,
            (a.phase, b.phase),
            mode=a.mode,
            concurrency=a.concurrency,
            kind=kind,
            certificate=certify(a.conditions, b.conditions, kind, allow),
            problems=found,
            floors={"drift": floor(a), "blocks": block_floor(a, b)},
        )
        if compared.ratio is not None:
            split, unsplit = step_time_split(a, b, costs)
            factors = {**compared.factors, **split}
            compared = replace(compared, factors=factors, unsplit=unsplit)
        yield compared


def drift_rows(last: Sequence[Measured], measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """The reference arm's last turn over its first: what the machine itself changed."""
    first = {(one.arm, one.mode, one.concurrency): one.first for one in measured}
    rows = []
    for late in last:
        early = first.get((late.arm, late.mode, late.concurrency))
        ratio = decode_ratio(late.phase.samples, early.samples) if early else None
        if ratio is not None:
            rows.append(
                {
                    "arm": late.arm,
                    "mode": late.mode,
                    "concurrency": late.concurrency,
                    "ratio": ratio.value,
                    "interval": [ratio.low, ratio.high],
                    "pairs": ratio.pairs,
                    "shown": not ratio.low <= 1 <= ratio.high,
                }
            )
    return rows
