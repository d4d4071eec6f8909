"""How far a number can be trusted: intervals over prompts, and how many prompts would show more.

Speeds differ far more between prompts than between two runs of one prompt, so the prompt is the
unit that is drawn anew. A percentile bootstrap is too narrow at two dozen prompts (its nominal
95 % covers about 92 %, and 89 to 91 % where lengths differ too; BCa is no better). The bootstrap-t
on the log of the ratio, which studentises each draw by its own linearised standard error, keeps
about 94 %. Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
CELLS = 4_000_000
"""Drawn prompts worked on at once."""
KEPT = 64_000_000
"""Most drawn prompts that are kept for the next ratio: a byte each."""
NO_SPREAD = 1e-9
"""A standard error this small is rounding: every prompt has the same ratio."""
LEAST_ERROR = 1 / 3
"""Of the standard error. A draw of few distinct prompts has next to none of its own, and dividing
by that would blow the interval up; at a dozen prompts or more it changes nothing."""
CONFIDENCE = 0.95
POWER = 0.8
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
"""Of the columns in the log of (tokens a / seconds a) / (tokens b / seconds b)."""

Row = tuple[float, float, float, float]
Table = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """A pooled rate over another, with its 95 % interval."""

    value: float
    low: float
    high: float
    pairs: int
    spread: float
    """Standard deviation between prompts of their effect on the log of the ratio."""


def pooled_ratio(rows: Sequence[Row], *, resamples: int = RESAMPLES, seed: int = 0) -> Ratio:
    """(sum tokens a / sum seconds a) / (sum tokens b / sum seconds b); one row is one prompt.

    Two rows at least, all numbers positive. The same rows and seed give the same interval.
    """
    table = np.array(rows, dtype=np.float64)
    table /= table.mean(axis=0)  # scale-free, so that products keep their precision
    n = len(table)
    raw = np.array(rows, dtype=np.float64).sum(axis=0)
    centre = float(np.log(raw) @ SIGNS)
    products = np.einsum("ni,nj->nij", table, table).reshape(n, 16)
    _, error = _estimate(table.sum(axis=0), products.sum(axis=0))
    spread = float(error) * math.sqrt(n) * math.sqrt(n / (n - 1))
    if error < NO_SPREAD:
        value = math.exp(centre)
        return Ratio(value, value, value, n, 0.0)
    logs, errors = _draws(table, products, resamples, seed)
    # The table is scaled, so the log of the sample itself is 0.
    studentised = logs / np.maximum(errors, LEAST_ERROR * error)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(studentised, [tail, 1 - tail])
    return Ratio(
        math.exp(centre),
        math.exp(centre - float(high * error)),
        math.exp(centre - float(low * error)),
        n,
        spread,
    )


def _estimate(sums: Table, products: Table) -> tuple[Table, Table]:
    """The log of the ratio and its standard error, from sums over prompts (last axis).

    To first order one prompt moves the log by w . row with w = signs / sums, whose squares add up
    to w P w, P being the summed products of its columns.
    """
    weights = SIGNS / sums
    matrix = products.reshape(*products.shape[:-1], 4, 4)
    variance = np.einsum("...i,...ij,...j->...", weights, matrix, weights)
    return np.log(sums) @ SIGNS, np.sqrt(np.maximum(variance, 0.0))


def _draws(table: Table, products: Table, resamples: int, seed: int) -> tuple[Table, Table]:
    """Logs of resampled tables and their standard errors."""
    n = len(table)
    columns = np.concatenate([table, products], axis=1)
    found = []
    for drawn in (_kept if n * resamples <= KEPT else _drawn)(n, resamples, seed):
        sums = drawn.astype(np.float64) @ columns
        found.append(_estimate(sums[:, :4], sums[:, 4:]))
    logs, errors = zip(*found, strict=True)
    return np.concatenate(logs), np.concatenate(errors)


def _drawn(n: int, resamples: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """How often each of n prompts is drawn, a row for each resample, in blocks.

    None is drawn 256 times: with n below that it cannot be, and beyond it the mean is still 1.
    """
    random = np.random.default_rng(seed)
    block = max(1, CELLS // n)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        cells = random.integers(0, n, (size, n))
        cells += n * np.arange(size)[:, None]
        counts = np.bincount(cells.ravel(), minlength=size * n)
        yield counts.reshape(size, n).astype(np.uint8)


@lru_cache(maxsize=1)
def _kept(n: int, resamples: int, seed: int) -> tuple[NDArray[np.uint8], ...]:
    """The arms of a run answer the same prompts, so every ratio draws the same."""
    return tuple(_drawn(n, resamples, seed))


def prompts_to_show(effect: float, spread: float, floor: float) -> int | None:
    """Prompts with which a true change by `effect` (0.05 is 5 %) is shown in 4 runs of 5.

    Shown means an interval without 1 and a ratio beyond `floor`. None where the floor is as large
    as the effect: no number of prompts gets below what the machine itself does.
    """
    if effect <= floor:
        return None
    normal = NormalDist()
    beyond = normal.inv_cdf(POWER)
    outside = normal.inv_cdf(0.5 + CONFIDENCE / 2) + beyond
    shift = math.log1p(effect)
    for_interval = (outside * spread / shift) ** 2
    for_floor = (beyond * spread / (shift - math.log1p(floor))) ** 2
    return max(2, math.ceil(max(for_interval, for_floor)))


def share_interval(
    hits: int, trials: int, by_request: Sequence[tuple[int, int]] | None = None
) -> tuple[float, float] | None:
    """Wilson's 95 % interval of hits / trials; None without a trial.

    Steps of one request resemble each other. With (hits, trials) of each request the number of
    trials is lowered to as many independent ones as vary as much; without, the interval is
    narrower than the truth.
    """
    if trials == 0:
        return None
    share, count = hits / trials, float(trials)
    if by_request is not None and len(by_request) > 1:
        m = len(by_request)
        squares = sum((hit - share * trial) ** 2 for hit, trial in by_request)
        variance = squares / trials**2 * m / (m - 1)
        if variance > 0:
            count = min(count, share * (1 - share) / variance)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    return 0.0 if hits == 0 else centre - half, 1.0 if hits == trials else centre + half
