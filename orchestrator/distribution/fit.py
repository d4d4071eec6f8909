"""Whether counts of drawn tokens fit the exact distribution.

Two statistics, over all contexts of an arm together:

- surprise: the sum of -log p of the drawn tokens less its expectation. It sees everything that
  makes text likelier or less likely than it should be: a wrong temperature, a cut tail, a verifier
  that accepts too often.
- fit: the G statistic over contexts seen often enough, which sees any other change.

An engine computes in bf16, so its own distribution is not quite the reference's. The null
hypothesis is therefore `the reference's logits with noise of the size that bf16 makes`: REPLICAS
noisy distributions of each context stand for it, and p-values of the fit are drawn from them. A
drawn token that no such noise brings within the rule is called impossible and fails the arm.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from backends.base import Sampling
from orchestrator.distribution.counts import Context
from orchestrator.distribution.rule import Array, probabilities

ALPHA = 0.01
"""Chance that an audit of honest arms fails, over all of its tests together (Holm)."""
POWER = 0.9
REPLICAS = 64
WIDE = 3.0
"""One replica in eight has this many times the noise: rounding errors have long tails."""
REACH = 5.0
"""How many times the noise a logit may be off before its token is called impossible."""
ENOUGH = 20
"""Draws that a context needs to take part in the fit."""
SPARE = 32
"""Tokens beyond top-k that noise may bring in."""
DRAWS = 2_000
MORE_DRAWS = 20_000
"""Where the first draws leave a p-value below SUSPECT."""
SUSPECT = 0.02


@dataclass(frozen=True)
class Expected:
    """One context: what may come next, and what came. One column for each of `tokens`."""

    context: Context
    tokens: tuple[int, ...]
    counts: Array
    exact: Array
    """Probabilities by the rule on the reference's logits."""
    noisy: Array
    """The same on noisy logits, a row for each replica."""
    possible: npt.NDArray[np.bool_]
    """Within the rule, or so near to its edge that noise may bring it in."""

    @property
    def mean(self) -> Array:
        found: Array = self.noisy.mean(axis=0)
        return found


@dataclass(frozen=True)
class Worst:
    """The token that is furthest from its expectation."""

    prompt: str
    position: int
    token: int
    drawn: int
    of: int
    expected: float
    """Probability by the rule."""


@dataclass(frozen=True)
class Fit:
    contexts: int
    tokens: int
    surprise: float
    """Nats a token above (+) or below (-) expectation."""
    p_surprise: float
    p_fit: float
    impossible: int
    worst: Worst | None


@dataclass(frozen=True)
class Power:
    """What the surprise test of a group would find, at its level after correction."""

    forced: float | None
    """Share of steps whose token is forced to the likeliest one, found with probability POWER.

    None where even a share of 1 would not be: the text is deterministic anyway.
    """
    distance: float | None
    """Mean total-variation distance that this share makes."""


def expect(
    context: Context,
    logits: Array,
    sampling: Sampling,
    end: Collection[int],
    noise: float,
    random: np.random.Generator,
) -> Expected:
    """End tokens share the column of the one with the smallest id, as in the context's counts."""
    drawn = [token for token, _ in context.counts]
    tokens = np.unique([*_likeliest(logits, sampling.top_k), *sorted(end), *drawn])
    exact = np.asarray(logits[tokens], dtype=np.float64)
    width = np.where(np.arange(REPLICAS) % 8 == 0, WIDE, 1.0)[:, None] * noise
    noisy = exact + width * random.standard_normal((REPLICAS, exact.size))
    rows = probabilities(np.concatenate([exact[None], noisy]), sampling)
    if end:
        ends = np.flatnonzero(np.isin(tokens, sorted(end)))
        rows[:, ends[0]] = rows[:, ends].sum(axis=1)
        rows[:, ends[1:]] = 0.0
    counts = np.zeros(tokens.size)
    counts[np.searchsorted(tokens, drawn)] = [times for _, times in context.counts]
    edge = np.where(rows[1:] > 0, noisy, np.inf).min()
    possible = (rows > 0).any(axis=0) | (exact + REACH * noise >= edge)
    return Expected(context, tuple(map(int, tokens)), counts, rows[0], rows[1:], possible)


def _likeliest(logits: Array, top_k: int) -> npt.NDArray[np.int_]:
    """What top-k may keep, noise included."""
    size = top_k + SPARE if top_k > 0 else logits.size
    return np.argsort(-logits)[:size]


def fit(expected: Sequence[Expected], random: np.random.Generator) -> Fit:
    """Judge one group of contexts of one arm."""
    tokens = sum(item.context.total for item in expected)
    total, variance, impossible = 0.0, 0.0, 0
    worst: tuple[float, Worst] | None = None
    for item in expected:
        mean, n = item.mean, item.context.total
        cost = _cost(mean)
        total += float(item.counts @ cost) - n * float(mean @ cost)
        variance += _variance(item, cost)
        impossible += int(item.counts[~item.possible].sum())
        off = np.square(item.counts - n * mean) / np.maximum(n * mean * (1 - mean), 1e-9)
        at = int(off.argmax())
        if worst is None or off[at] > worst[0]:
            worst = (float(off[at]), _worst(item, at))
    z = total / math.sqrt(variance) if variance > 0 else 0.0
    return Fit(
        contexts=len(expected),
        tokens=tokens,
        surprise=total / tokens if tokens else 0.0,
        p_surprise=2 * NormalDist().cdf(-abs(z)),
        p_fit=_fit_p([item for item in expected if item.context.total >= ENOUGH], random),
        impossible=impossible,
        worst=worst[1] if worst is not None else None,
    )


def _variance(item: Expected, cost: Array) -> float:
    """Of the summed cost: that of drawing, and that of not knowing the engine's rounding."""
    mean, n = item.mean, item.context.total
    drawing = float(mean @ np.square(cost) - (mean @ cost) ** 2)
    return n * drawing + n * n * float((item.noisy @ cost).var())


def _worst(item: Expected, at: int) -> Worst:
    return Worst(
        prompt=item.context.prompt,
        position=len(item.context.prefix) + 1,
        token=item.tokens[at],
        drawn=int(item.counts[at]),
        of=item.context.total,
        expected=float(item.exact[at]),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def power(expected: Sequence[Expected], tests: int) -> Power:
    """For the strictest of Holm's levels, ALPHA / tests."""
    variance, shift, apart, tokens = 0.0, 0.0, 0.0, 0
    for item in expected:
        mean, n = item.mean, item.context.total
        cost = _cost(mean)
        variance += _variance(item, cost)
        shift += n * float(mean @ cost - cost[mean.argmax()])
        apart += n * (1 - float(mean.max()))
        tokens += n
    level = NormalDist().inv_cdf(1 - ALPHA / tests / 2) + NormalDist().inv_cdf(POWER)
    share = level * math.sqrt(variance) / shift if shift > 0 else math.inf
    return Power(share, share * apart / tokens) if share <= 1 else Power(None, None)


def _cost(probability: Array) -> Array:
    """-log p; 0 for tokens that cannot come, which are counted apart."""
    found: Array = -np.log(np.where(probability > 0, probability, 1.0))
    return found


def _fit_p(expected: Sequence[Expected], random: np.random.Generator) -> float:
    """Monte Carlo p-value of the G statistic summed over contexts; 1 where there is none."""
    pooled = [_pool(item) for item in expected]
    pooled = [item for item in pooled if item[1].shape[1] > 1]
    if not pooled:
        return 1.0
    seen = sum(float(_g(counts[None], cells.mean(axis=0))[0]) for counts, cells in pooled)
    p = 1.0
    for draws in (DRAWS, MORE_DRAWS):
        each = -(-draws // REPLICAS)
        drawn = np.zeros(each * REPLICAS)
        for counts, cells in pooled:
            n = int(counts.sum())
            some = np.concatenate([random.multinomial(n, row, size=each) for row in cells])
            # Which replica is an engine's is independent from context to context.
            drawn += random.permutation(_g(some, cells.mean(axis=0)))
        p = (1 + int((drawn >= seen - 1e-9).sum())) / (1 + drawn.size)
        if p > SUSPECT:
            break
    return p


def _pool(item: Expected) -> tuple[Array, Array]:
    """Counts and noisy probabilities with the tokens expected less than once in one cell.

    Tokens without any probability are left out: where they are impossible, they are counted apart.
    """
    often = item.mean * item.context.total
    common, rare = np.flatnonzero(often >= 1.0), np.flatnonzero((often > 0) & (often < 1.0))
    counts = item.counts
    parts, cells = [counts[common]], [item.noisy[:, common]]
    if rare.size:
        parts.append(counts[rare].sum(keepdims=True))
        cells.append(item.noisy[:, rare].sum(axis=1, keepdims=True))
    probability = np.concatenate(cells, axis=1)
    return np.concatenate(parts), probability / probability.sum(axis=1, keepdims=True)


def _g(counts: Array, probability: Array) -> Array:
    """2 sum O log(O / E) for each row of counts."""
    total = counts.sum(axis=1, keepdims=True)
    ratio = np.divide(counts, total * probability, out=np.ones(counts.shape), where=(counts > 0))
    found: Array = 2 * (counts * np.log(ratio)).sum(axis=1)
    return found
