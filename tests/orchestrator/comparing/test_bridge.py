"""A ratio across engines and quantisations, split into its two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.bridge import Split, split_json, splits
from orchestrator.comparing.certify import CONDITIONS
from tests.orchestrator.measured import drafted, plain, timed

ALLOW = ["quantisation", "drafter"]


def arm(backend: str, quantisation: str, seconds: Sequence[float], **changes: Any) -> Measured:
    conditions = {
        **{name: f"hf {name}" for name in CONDITIONS},
        "backend": backend,
        "speculation": "none",
        "draft_tokens": "none",
        "quantisation": quantisation,
        "engine": backend,
        "weight_files": f"{backend} {quantisation}",
        **changes,
    }
    name = f"{backend}-{quantisation}"
    phase = plain(timed(seconds, name))
    if conditions["speculation"] != "none":
        name = f"{backend}-{conditions['speculation']}-{quantisation}"
        phase = drafted(timed(seconds, name), 100, (60, 30))
    return Measured(name, "greedy", 1, phase, 0, (), (), None, conditions, (phase,))


def uneven(factor: float) -> list[float]:
    return [factor * (1 + 0.05 * (number % 4)) for number in range(12)]


VLLM = arm("vllm", "bf16", uneven(1.0))
LLAMA = arm("llamacpp", "bf16", [2 * s for s in reversed(uneven(1.0))])
SMALL = arm("llamacpp", "q4_k_m", uneven(0.8))


def found(measured: Sequence[Measured], allow: Sequence[str] = ALLOW) -> list[Split]:
    return list(splits(measured, allow, lambda _: 0.02))


def test_the_parts_multiply_to_the_whole_and_each_has_an_interval() -> None:
    (split,) = found([VLLM, LLAMA, SMALL])
    assert (split.whole.a, split.whole.b, split.via) == (SMALL.arm, VLLM.arm, LLAMA.arm)
    told = split_json(split)
    whole, engine, quantisation = (told[key] for key in ("whole", "engine", "quantisation"))
    assert (engine["a"], engine["b"]) == (LLAMA.arm, VLLM.arm)
    assert (quantisation["a"], quantisation["b"]) == (SMALL.arm, LLAMA.arm)
    assert whole["ratio"] == pytest.approx(engine["ratio"] * quantisation["ratio"], rel=1e-12)
    assert engine["ratio"] == pytest.approx(0.5)
    assert quantisation["ratio"] == pytest.approx(2.5)
    for part in (whole, engine, quantisation):
        assert part["interval"][0] <= part["ratio"] <= part["interval"][1]
    assert engine["label"] is None
    assert "quantisation may differ here, so this is no speedup" in quantisation["label"]
    assert "quantisation may differ here, so this is no speedup" in whole["label"]


def test_only_prompts_that_all_three_timed_count() -> None:
    """Else the product of the parts would not be the whole."""
    fewer = replace(LLAMA, phase=plain(LLAMA.phase.samples[3:]))
    odd = replace(SMALL, phase=plain(SMALL.phase.samples[:-2]))
    (split,) = found([VLLM, fewer, odd])
    told = split_json(split)
    assert {told[key]["pairs"] for key in ("whole", "engine", "quantisation")} == {7}
    assert told["whole"]["ratio"] == pytest.approx(
        told["engine"]["ratio"] * told["quantisation"]["ratio"], rel=1e-12
    )


def test_the_same_gguf_in_two_engines_is_a_second_way() -> None:
    sglang = arm("sglang", "bf16", uneven(1.5))
    same = arm("sglang", "q4_k_m", uneven(1.2))
    ways = {(s.whole.a, s.whole.b, s.via) for s in found([sglang, same, LLAMA, SMALL])}
    assert ways == {
        (SMALL.arm, sglang.arm, LLAMA.arm),
        (SMALL.arm, sglang.arm, same.arm),
        (same.arm, LLAMA.arm, sglang.arm),
        (same.arm, LLAMA.arm, SMALL.arm),
    }


def test_nothing_is_split_where_quantisation_may_not_differ_or_no_arm_is_between() -> None:
    assert found([VLLM, LLAMA, SMALL], []) == []
    assert found([VLLM, SMALL]) == []
    drafter = {"speculation": "dflash", "draft_tokens": 15}
    assert found([VLLM, arm("llamacpp", "bf16", uneven(1.0), **drafter), SMALL]) == []


def test_a_part_that_is_refused_refuses_the_split_and_says_why() -> None:
    other = arm("llamacpp", "q4_k_m", uneven(0.8), kv_dtype="f16")
    (split,) = found([VLLM, LLAMA, other])
    told = split_json(split)
    assert told["whole"] is told["engine"] is told["quantisation"] is None
    assert told["reason"].startswith(
        f"{SMALL.arm} against {LLAMA.arm}: conditions differ: kv_dtype"
    )


def test_a_phase_that_is_no_speed_result_refuses() -> None:
    (split,) = found([VLLM, replace(LLAMA, problems=("2 requests failed",)), SMALL])
    assert "2 requests failed" in str(split.reason)
