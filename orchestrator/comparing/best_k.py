"""The rate expected of each K, from the cost of a step and acceptance at the largest K.

rate(K) = tau(K) / t_step(K). Steps between two measured K are interpolated.

tau at a smaller K follows from how many drafts were accepted in a row at a larger one. A step that
accepted j of K drafts gave j + 1 tokens, which at K' < K take (j + 1) / (K' + 1) steps: rounded up
where the row ended, since a wrong draft ends a step at any K, and as it is where all K were right,
since the next step goes on. Marginals alone, 1 + their sum below K', would give too little: easy
text, where many are accepted, takes more of the steps at a smaller K. On tiny-muse the marginals
are 1 to 15 % low, this is 0 to 4 % high (it takes the drafts of a nearer anchor for no better).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

HELD_WITHIN = 0.05
"""A prediction holds where what was measured is no further off, or where its interval tells a
difference and holds the prediction."""


@dataclass(frozen=True)
class Point:
    """What is expected of one K."""

    draft_tokens: int
    acceptance_length: float
    step_ms: float
    tok_s: float
    tau_measured: bool
    step_measured: bool
    """False: interpolated between the K next to it."""


def acceptance_length(marginal: Sequence[float], k: int) -> float:
    """tau at `k`, out of the marginals of a K that is as large or larger."""
    reached = [1.0, *marginal, 0.0]
    largest = len(marginal)
    tokens = steps = 0.0
    for row in range(largest + 1):
        share = reached[row] - reached[row + 1]
        ratio = (row + 1) / (k + 1)
        tokens += share * (row + 1)
        steps += share * (ratio if row == largest else math.ceil(ratio))
    return tokens / steps


def predict(
    steps_ms: Mapping[int, float], marginals: Mapping[int, Sequence[float]]
) -> tuple[Point, ...]:
    """Every K from the smallest to the largest step that was measured.

    `marginals` holds the largest K at least; where others were measured too, what the rule misses
    there is made up for in proportion.
    """
    ks = sorted(steps_ms)
    points = []
    for k in range(ks[0], ks[-1] + 1):
        above = min(m for m in marginals if m >= k)
        known = [m for m in marginals if m <= k]
        tau = acceptance_length(marginals[above], k)
        if known:
            below = max(known)
            missed = 1 + sum(marginals[below])
            missed /= acceptance_length(marginals[above], below)
            tau *= float(np.interp(k, [below, above], [missed, 1.0])) if below < above else 1.0
        step = float(np.interp(k, ks, [steps_ms[m] for m in ks]))
        points.append(Point(k, tau, step, 1000 * tau / step, k in marginals, k in steps_ms))
    return tuple(points)


def probes(largest: int) -> list[int]:
    """Four K whose steps are timed: both ends and between, closer at the low end where K pays."""
    return sorted({1, (largest + 3) // 4, (largest + 1) // 2, largest})


def prediction_held(
    expected: float, measured: float, interval: tuple[float, float] | None, noise: float
) -> bool | None:
    """None where it is off by no more than `noise`, which the machine itself was off by."""
    off = max(measured / expected, expected / measured) - 1
    if off <= HELD_WITHIN:
        return True
    if interval is not None and interval[0] <= expected <= interval[1]:
        return None if interval[0] <= 1 <= interval[1] else True
    return None if off <= noise else False
