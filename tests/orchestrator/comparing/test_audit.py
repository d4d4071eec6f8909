"""Where the tokens of two arms part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.comparing.audit import Margin, audit_greedy, first_divergence
from orchestrator.load.sample import Sample
from tests.orchestrator.measured import sample, told


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1, 2), (1, 2, 3), 2), ((), (1,), 0)],
)
def test_the_first_difference(a: tuple[int, ...], b: tuple[int, ...], place: int | None) -> None:
    assert first_divergence(a, b) == first_divergence(b, a) == place


def reply(prompt: str, *ids: int, steps: int) -> Sample:
    chunks = tuple((at, (token,)) for at, token in enumerate(ids))
    return replace(sample(prompt, told=told(steps, 0)), chunks=chunks)


def test_an_output_that_ended_earlier_differs_there() -> None:
    def margin(prompt: str, prefix: object, a: int | None, b: int | None) -> Margin:
        return Margin(None, None, f"{prompt} {prefix} {a} {b}")

    left = [reply("x", 1, 2, steps=1), reply("y", 1, 2, 3, steps=2), reply("z", 4, steps=9)]
    right = [reply("x", 1, 2, 5, steps=3), reply("y", 1, 2, 3, steps=1)]
    found = audit_greedy("a", "b", 1, left, right, margin)
    assert (found.prompts, found.identical) == (2, 1)
    (one,) = found.divergences
    assert (one.prompt, one.position, one.a, one.b) == ("x", 2, None, 5)
    assert one.margin.reason == "x (1, 2) None 5"
    assert found.tokens_per_pass is not None
    assert (found.tokens_per_pass.a, found.tokens_per_pass.b) == (1.0, 2.0)
