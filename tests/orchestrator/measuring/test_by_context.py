"""Speed and acceptance by prompt length."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.measuring.by_context import by_context
from orchestrator.measuring.metrics import Phase
from tests.orchestrator.measured import drafted, plain, sample, told


def phase(lengths: list[int]) -> Phase:
    """101 tokens in 1 s and tau 3 for short prompts, in 2 s and tau 2 from 4096 tokens on."""
    samples = []
    for number, length in enumerate(lengths):
        far = length >= 4096
        one = sample(number, 101, 2.0 if far else 1.0, told=told(50, 50) if far else told(40, 80))
        samples.append(replace(one, prompt_tokens=length))
    return drafted(samples, 1000, (1000, 500))


def test_long_prompts_are_told_apart_from_short_ones() -> None:
    short, long = by_context(phase([10, 1023, 20, 30, 40, 4096, 9000]))
    assert (short["from"], short["to"], short["requests"]) == (0, 1024, 5)
    assert (long["from"], long["to"], long["requests"]) == (4096, 16_384, 2)
    assert short["metrics"]["decode_tok_s"] == {"value": 100.0, "unit": "tok/s", "n": 5}
    assert long["metrics"]["decode_tok_s"]["value"] == pytest.approx(50)
    assert short["metrics"]["acceptance_length"]["value"] == pytest.approx(3)
    assert long["metrics"]["acceptance_length"]["value"] == pytest.approx(2)
    assert short["acceptance_length_interval"] == pytest.approx([3, 3])
    assert long["acceptance_length_interval"] is None  # two requests tell no interval


def test_one_bucket_says_no_more_than_the_whole() -> None:
    assert by_context(phase([10, 20, 30])) == []


def test_the_last_bucket_is_open() -> None:
    (_, last) = by_context(phase([10, 120_000]))
    assert (last["from"], last["to"]) == (65_536, None)


def test_what_requests_do_not_tell_has_a_reason() -> None:
    samples = [replace(sample(n), prompt_tokens=n * 2000) for n in range(3)]
    for bucket in by_context(drafted(samples, 10, (5,))):
        assert bucket["metrics"]["acceptance_length"]["value"] is None
        assert "not every request tells" in bucket["metrics"]["acceptance_length"]["reason"]
    for bucket in by_context(plain(samples)):
        assert bucket["metrics"]["acceptance_length"]["reason"] == "no speculation"
