"""How far a ratio of equal things may be from 1 here: what repeats show of the machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.comparing.blocks import Measured
from orchestrator.measuring.metrics import measure


def drift_floor(rows: Sequence[Mapping[str, Any]], mode: str, concurrency: int) -> float:
    """Largest relative change of the reference arm from its first turn to its last; 0 unseen."""
    return max(
        (
            max(row["ratio"], 1 / row["ratio"]) - 1
            for row in rows
            if (row["mode"], row["concurrency"]) == (mode, concurrency)
        ),
        default=0.0,
    )


def block_floor(a: Measured, b: Measured) -> float:
    """Two standard errors of the pair's ratio over its blocks; 0 with fewer than two.

    What changes from block to block for both arms alike is not in it: it is in no ratio either.
    """
    logs = []
    for one, two in zip(a.blocks, b.blocks, strict=False):
        rates = [measure(p, ("decode_tok_s",))["decode_tok_s"].value for p in (one, two)]
        if rates[0] is not None and rates[1] is not None:
            logs.append(math.log(rates[0] / rates[1]))
    if len(logs) < 2:
        return 0.0
    return math.expm1(2 * statistics.stdev(logs) / math.sqrt(len(logs)))
