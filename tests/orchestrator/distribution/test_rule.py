from __future__ import annotations

import numpy as np
import pytest

from backends.base import Sampling
from orchestrator.distribution.rule import probabilities

HALVES = np.log([0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(1.0), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(1.0, top_k=2), [0.625, 0.375, 0, 0]),
        # The second token is in: only half of the mass is before it.
        (Sampling(1.0, top_p=0.6), [0.625, 0.375, 0, 0]),
        (Sampling(1.0, top_p=0.4), [1, 0, 0, 0]),
        # Of what top-k left, 0.625 is on the first token; of everything, 0.5 is.
        (Sampling(1.0, top_p=0.55, top_k=2), [1, 0, 0, 0]),
        (Sampling(0.5), np.square([0.5, 0.3, 0.15, 0.05]) / 0.365),
        # At T 0.5 the first token has 0.68 of the mass, at T 1 it has 0.5.
        (Sampling(0.5, top_p=0.6), [1, 0, 0, 0]),
    ],
)
def test_the_order_is_temperature_top_k_top_p(sampling: Sampling, expected: list[float]) -> None:
    assert probabilities(HALVES, sampling) == pytest.approx(np.array(expected))


def test_each_row_is_cut_by_itself_and_the_order_of_tokens_does_not_matter() -> None:
    rows = np.stack([HALVES, HALVES[::-1] + 7.0])
    found = probabilities(rows, Sampling(1.0, top_p=0.9, top_k=3))
    assert found[1] == pytest.approx(found[0][::-1])
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert (found[0] > 0).tolist() == [True, True, True, False]
