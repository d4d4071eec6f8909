"""Times and rates of requests, of samples that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.load.sample import Sample
from orchestrator.measuring.metrics import measure
from tests.orchestrator.measured import plain, sample


def request(number: int, ttft_ms: float, tokens: int, decode_s: float) -> Sample:
    """Sent at 1 s; the first token `ttft_ms` later, the others `decode_s` after it."""
    send, first = 10**9, 10**9 + round(ttft_ms * 1e6)
    last = first + round(decode_s * 1e9)
    chunks = ((first, (7,)), (last, (7,) * (tokens - 1)))
    return replace(sample(number), t_send_ns=send, chunks=chunks, t_end_ns=last)


def value(samples: list[Sample], name: str) -> float | None:
    return measure(plain(samples), (name,))[name].value


def test_rates_are_pooled_and_tpot_is_of_the_middle_request() -> None:
    # 100, 50 and 10 tokens a second after the first token.
    three = [request(0, 5, 101, 1), request(1, 5, 101, 2), request(2, 5, 11, 1)]
    assert value(three, "decode_tok_s") == pytest.approx(210 / 4)
    assert value(three, "tpot_ms") == pytest.approx(20)
    assert value(three, "output_tokens") == 213


def test_ttft_is_from_sending_to_the_first_token() -> None:
    assert value([request(n, ms, 2, 1) for n, ms in enumerate([10, 30, 80])], "ttft_ms") == 30
    assert value([request(n, ms, 2, 1) for n, ms in enumerate([10, 30])], "ttft_ms") == 20


def test_a_95th_percentile_lies_between_ranks_and_wants_twenty_requests() -> None:
    # Of 1, 2, .. 21 ms it is the 20th; of 1, 2, .. 20 it is a twentieth of the way from 19 to 20.
    many = [request(n, n + 1, 2, 1) for n in range(21)]
    assert value(many, "ttft_p95_ms") == pytest.approx(20)
    assert value(many[:20], "ttft_p95_ms") == pytest.approx(19.05)
    few = measure(plain(many[:19]), ("ttft_p95_ms",))["ttft_p95_ms"]
    assert (few.value, few.reason) == (None, "19 requests are too few for a 95th percentile")


def test_what_took_no_time_has_no_rate() -> None:
    at_once = replace(sample(1), t_send_ns=5, chunks=((5, (7, 7)),), t_end_ns=5)
    found = measure(plain([at_once]), ("decode_tok_s", "tpot_ms", "output_tok_s"))
    assert [one.value for one in found.values()] == [None, None, None]
    assert found["output_tok_s"].reason == "no time passed"
