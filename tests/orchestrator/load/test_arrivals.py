from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.load.arrivals import decode_intervals, ttfts
from tests.orchestrator.measured import FIRST_NS, sample


def test_tokens_after_the_first_and_their_time() -> None:
    ((tokens, seconds),) = decode_intervals([sample("a", 101, 2.0)])
    assert tokens == 100
    assert seconds == pytest.approx(2.0)


def test_one_arrival_has_no_interval_but_a_first_token() -> None:
    one, none = sample("a", 1), sample("b", 0)
    together = replace(sample("c"), chunks=((FIRST_NS, (7, 7, 7)),))
    assert decode_intervals([one, none, together]) == []
    assert ttfts([one, none, together]) == [FIRST_NS / 1e9] * 2
