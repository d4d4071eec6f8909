"""vLLM's argv, requests and events, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from msgspec import json

from backends import BACKENDS
from backends.base import Chunk, RequestSpeculation
from backends.vllm.batch import batched_tokens
from tests.backends.specs import GREEDY, WARM, ask, option, spec

VLLM = BACKENDS["vllm"]


def test_k_goes_into_the_speculative_config() -> None:
    argv = VLLM.plan(spec("dspark", engine_version="0.33.0")).argv
    config = json.decode(str(option(argv, "--speculative-config")))
    assert config["method"] == "dspark"
    assert config["model"] == "/m/dspark"
    assert config["num_speculative_tokens"] == 16


def test_scheduled_tokens_stay_positive() -> None:
    """Up to 0.31 vLLM takes K a sequence off its batch: with 1024 sequences 8192 would not do."""
    big = spec("dflash", slots=1024, engine_version="0.31.0")
    assert batched_tokens(big) - 15 * 1024 == 8192


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0", "0.33.0"])
@pytest.mark.parametrize(("context", "slots"), [(1024, 1), (1024, 8), (8192, 1), (8192, 32)])
@pytest.mark.parametrize("family", ["dflash", "dspark"])
def test_a_batch_fits_its_slots(
    version: str, context: int, slots: int, family: Literal["dflash", "dspark"]
) -> None:
    """8320 tokens for 8 slots of 1024 were the end of vLLM 0.33.0 on a GPU."""
    asked = spec(family, engine_version=version, context_length=context, slots=slots)
    assert batched_tokens(asked) <= context * slots
    codes = [finding.code for finding in VLLM.plan(asked).findings]
    assert "scheduled-tokens" not in codes


def test_per_request_records_are_asked_for_only_with_a_drafter() -> None:
    """A plain arm refuses the flag."""
    flag = "--per-request-spec-decode-metrics"
    assert flag not in VLLM.plan(spec()).argv
    assert option(VLLM.plan(spec("dflash")).argv, flag) == "summary"


def test_per_request_records_are_not_asked_of_a_release_without_them() -> None:
    argv = VLLM.plan(spec("dflash", engine_version="0.28.0")).argv
    assert "--per-request-spec-decode-metrics" not in argv


def test_the_prefix_cache_is_off_and_the_models_own_sampling_too() -> None:
    argv = VLLM.plan(spec()).argv
    assert "--no-enable-prefix-caching" in argv
    assert option(argv, "--generation-config") == "vllm"


def test_a_cpu_arm_gets_overlays_and_patches() -> None:
    plan = VLLM.plan(spec("dflash", device="cpu"))
    target, drafter = plan.overlays
    assert target.aliases == {"image_token_index": "image_token_id"}
    assert drafter.aliases["dflash_config.target_layer_ids"] == "target_layer_ids"
    assert not drafter.changes, "the published vocabulary is what vLLM assumes"
    assert target.placeholder in plan.argv
    assert "--disable-hybrid-kv-cache-manager" in plan.argv
    assert "vllm-cpu-expand" in plan.patches


def test_another_vocabulary_is_named() -> None:
    tiny = spec("dflash")
    assert tiny.drafter is not None
    tiny = replace(tiny, drafter=replace(tiny.drafter, vocab_size=1024))
    (overlay,) = VLLM.plan(tiny).overlays
    assert overlay.changes == {"vocab_size": 1024}


def test_dspark_on_a_cpu_is_refused_with_the_reason() -> None:
    findings = VLLM.plan(spec("dspark", device="cpu")).findings
    assert [f.code for f in findings if f.level == "error"] == ["dspark-needs-v2-runner"]


def test_a_gguf_is_refused() -> None:
    assert [f.code for f in VLLM.plan(spec(format_="gguf")).findings] == ["format"]


def test_fixed_length_masks_end_tokens_until_the_last() -> None:
    body = VLLM.call(ask(GREEDY), "muse").body
    assert (body["min_tokens"], body["max_tokens"]) == (32, 32)
    assert body["stop_token_ids"] == [1, 2]
    assert VLLM.call(ask(GREEDY, fixed_length=False), "muse").body["min_tokens"] == 0


def test_every_sampler_setting_is_sent() -> None:
    body = VLLM.call(ask(WARM), "muse").body
    assert (body["temperature"], body["top_k"], body["top_p"], body["min_p"]) == (1.0, 64, 0.95, 0)
    assert body["repetition_penalty"] == 1.0
    assert body["seed"] == 7
    assert body["prompt"] == [0, 5, 9]


def test_chunks_hold_ids_and_the_last_one_the_record() -> None:
    choice = {"text": "x", "token_ids": [4, 5], "finish_reason": None}
    assert VLLM.chunk(json.encode({"choices": [choice]})) == Chunk(token_ids=(4, 5))
    told = {"acceptance_histogram": [3, 0, 2], "num_spec_steps": 5, "num_draft_tokens": 10}
    last = {
        "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 9},
        "metrics": {"speculative_decoding": told},
    }
    assert VLLM.chunk(json.encode(last)) == Chunk(
        prompt_tokens=3,
        completion_tokens=9,
        speculation=RequestSpeculation(steps=5, drafted=10, accepted=4, histogram=(3, 0, 2)),
    )


def test_an_error_event_is_an_error() -> None:
    assert VLLM.chunk(json.encode({"error": {"message": "no"}})).error == "no"


def test_ids_of_the_wrong_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"Expected `array.*token"):
        VLLM.chunk(json.encode({"choices": [{"token_ids": "ab"}]}))
