from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from msgspec import json

from backends.base import Drafter, Request, RequestSpeculation, Sampling, ServeSpec, Weights
from backends.sglang.launch import SGLANG

HF = Weights("/models/target", "hf", "bf16", "toy")
PLAIN = ServeSpec("python", "0.5.23", "cpu", HF, None, None, context_length=512, slots=2)


def drafted(family: Literal["dflash", "dspark"], k: int, **changes: Any) -> ServeSpec:
    weights = Weights(f"/models/{family}", "hf", "bf16", family)
    anchor = None if family == "dflash" else False
    drafter = Drafter(family, weights, 16, 16, (0, 2), anchor, vocab_size=1024)
    return replace(PLAIN, drafter=drafter, draft_tokens=k, **changes)


def after(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_k_counts_drafts_whatever_the_engine_counts() -> None:
    dflash = SGLANG.plan(drafted("dflash", 15))
    assert after(dflash.argv, "--speculative-num-draft-tokens") == "16"
    assert after(dflash.argv, "--speculative-dflash-block-size") == "16"
    dspark = SGLANG.plan(drafted("dspark", 15))
    assert after(dspark.argv, "--speculative-num-draft-tokens") == "16"
    assert after(dspark.argv, "--speculative-dspark-block-size") == "15"
    assert (dflash.draft_tokens, dspark.draft_tokens) == (15, 15)


def test_a_dspark_drafter_is_told_that_its_block_is_not_causal() -> None:
    (overlay,) = SGLANG.plan(drafted("dspark", 15)).overlays
    assert overlay.changes == {"is_causal": False}
    (overlay,) = SGLANG.plan(drafted("dflash", 15)).overlays
    assert overlay.changes == {"vocab_size": 1024}


def test_a_full_slot_has_room_for_the_last_block() -> None:
    assert after(SGLANG.plan(PLAIN).argv, "--max-total-tokens") == str(2 * 512)
    assert after(SGLANG.plan(drafted("dflash", 15)).argv, "--max-total-tokens") == str(2 * 528)


@pytest.mark.parametrize("kv", ["f16", "f32"])
def test_refuses_another_kv_type(kv: str) -> None:
    (finding,) = [
        f for f in SGLANG.plan(replace(PLAIN, kv_dtype=kv)).findings if f.level == "error"
    ]
    assert finding.code == "kv-dtype"


def test_every_sampler_setting_is_explicit() -> None:
    request = Request("p", (0, 5), 8, Sampling(0.6, 0.95, 64), 7, (1, 2), fixed_length=True)
    call = SGLANG.call(request, "muse")
    assert call.body["input_ids"] == [0, 5]
    assert call.body["sampling_params"] == {
        "max_new_tokens": 8,
        "min_new_tokens": 0,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 64,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop_token_ids": [1, 2],
        "ignore_eos": False,
        "skip_special_tokens": False,
        "sampling_seed": 7,
        "logit_bias": {"1": -1e9, "2": -1e9},
    }


@pytest.mark.parametrize(
    "names",
    [
        ("spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_correct_drafts_histogram"),
        ("spec_accepted_drafts", "spec_draft_token_num", "spec_accept_histogram"),
        ("spec_accept_token_num", "spec_draft_token_num", "spec_accept_histogram"),
    ],
)
def test_reads_the_record_under_every_name_it_had(names: tuple[str, str, str]) -> None:
    accepted, drafted_, histogram = names
    meta = {"finish_reason": {"type": "length"}, "spec_verify_ct": 3, accepted: 4, drafted_: 45}
    chunk = SGLANG.chunk(
        json.encode({"output_ids": [5], "meta_info": {**meta, histogram: [1, 0, 2]}})
    )
    assert chunk.finish == "length"
    assert chunk.speculation == RequestSpeculation(3, 45, 4, (1, 0, 2))


def test_an_aborted_request_is_an_error() -> None:
    reason = {"type": "abort", "message": "Input is too long"}
    chunk = SGLANG.chunk(json.encode({"output_ids": [], "meta_info": {"finish_reason": reason}}))
    assert chunk.error == "aborted by the server: Input is too long"
