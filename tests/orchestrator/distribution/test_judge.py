"""Verdicts of an audit over all its rows, on engines whose distribution is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from orchestrator.distribution.audit import AS_ASKED, DIFFERS, Row, judge
from orchestrator.distribution.draw import MODES
from orchestrator.distribution.reference import Reference
from orchestrator.distribution.rule import Array, probabilities
from orchestrator.load.sample import Sample
from tests.orchestrator.measured import sample

PROMPTS = {f"p{number}": [number] for number in range(3)}
VOCABULARY, NOISE = 100, 0.02


def logits(prompt: str, prefix: Sequence[int]) -> Array:
    seed = [int(prompt[1:]), *(token + 1 for token in prefix)]
    return np.random.default_rng(seed).normal(0.0, 2.5, VOCABULARY)


def look_up(_: Mapping[str, Sequence[int]], keys: Sequence[Any]) -> Reference:
    return Reference({key: logits(*key) for key in keys}, NOISE)


def drawn(arms: int) -> dict[str, dict[str, list[Sample]]]:
    """Each arm answers each prompt 40 times with two tokens, exactly as asked."""
    random = np.random.default_rng(5)

    def answer(prompt: str, mode: str) -> Sample:
        ids: list[int] = []
        for _ in range(2):
            p = probabilities(logits(prompt, ids), MODES[mode])
            ids.append(int(random.choice(VOCABULARY, p=p)))
        return replace(sample(prompt), chunks=((1, tuple(ids)),), finish="length")

    return {
        f"arm{number}": {
            mode: [answer(prompt, mode) for prompt in PROMPTS for _ in range(40)] for mode in MODES
        }
        for number in range(arms)
    }


def verdicts(rows: list[Row]) -> dict[str, set[str]]:
    return {row.arm: {one.verdict for one in rows if one.arm == row.arm} for row in rows}


def test_honest_arms_pass_and_every_p_is_corrected_for_all_tests() -> None:
    rows = judge(drawn(3), PROMPTS, (), look_up)
    assert len(rows) == 3 * len(MODES) * 2
    assert set.union(*verdicts(rows).values()) == {AS_ASKED}
    least = min(rows, key=lambda row: min(row.fit.p_surprise, row.fit.p_fit))
    plain = min(least.fit.p_surprise, least.fit.p_fit)
    assert least.p_adjusted == pytest.approx(min(1.0, 2 * len(rows) * plain))


def test_one_impossible_token_fails_its_arm_and_no_other() -> None:
    answers = drawn(2)
    first = answers["arm1"]["t0.6"][0]
    never = int(logits(first.prompt_id, ()).argmin())
    wrong = replace(first, chunks=((1, (never,)),))
    answers["arm1"]["t0.6"] = [wrong, *answers["arm1"]["t0.6"][1:]]
    rows = judge(answers, PROMPTS, (), look_up)
    assert verdicts(rows)["arm0"] == {AS_ASKED}
    (bad,) = [row for row in rows if row.verdict == DIFFERS]
    assert (bad.arm, bad.mode, bad.positions) == ("arm1", "t0.6", "first token")
    assert (bad.fit.impossible, bad.p_adjusted) == (1, 0.0)
