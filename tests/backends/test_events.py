"""Shapes of events that servers send besides the usual ones, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import json

from backends import BACKENDS
from backends.base import Chunk

READ: list[tuple[str, dict[str, Any], Chunk]] = [
    ("vllm", {"choices": [{"token_ids": None}], "usage": None, "metrics": None}, Chunk()),
    ("vllm", {"choices": [{"logprobs": {"top_logprobs": [None]}}]}, Chunk()),
    ("vllm", {"choices": [{"text": "", "finish_reason": "stop"}]}, Chunk(finish="stop")),
    ("vllm", {"error": "no"}, Chunk(error="no")),
    ("vllm", {"error": None, "choices": [{"token_ids": [3]}]}, Chunk((3,))),
    ("vllm", {}, Chunk()),
    ("sglang", {"output_ids": [3], "meta_info": None}, Chunk((3,))),
    ("sglang", {"meta_info": {"finish_reason": "length"}}, Chunk(finish="length")),
    ("sglang", {"meta_info": {"finish_reason": {"type": "stop", "matched": 1}}}, Chunk((), "stop")),
    ("sglang", {"meta_info": {"output_top_logprobs": [None]}}, Chunk()),
    (
        "sglang",
        {"meta_info": {"finish_reason": "abort"}},
        Chunk(error="aborted by the server: no reason given"),
    ),
    ("llamacpp", {"stop": True, "stop_type": "eos", "timings": None}, Chunk(finish="stop")),
    ("llamacpp", {"tokens": [3], "completion_probabilities": []}, Chunk((3,))),
    ("llamacpp", {"error": {"code": 500}}, Chunk(error="{'code': 500}")),
]
REFUSED = [
    ("vllm", b'{"choices":[{"token_ids":["a"]}]}', r"choices\[0\]\.token_ids\[0\]"),
    ("vllm", b'{"choices":[{"finish_reason":7}]}', "finish_reason"),
    ("vllm", b'{"usage":{"prompt_tokens":"8"}}', r"usage\.prompt_tokens"),
    ("sglang", b'{"output_ids":null}', "output_ids"),
    ("sglang", b'{"meta_info":{"spec_accept_histogram":3}}', r"meta_info\.spec_accept_histogram"),
    ("llamacpp", b'{"tokens":[1.5]}', r"tokens\[0\]"),
    ("llamacpp", b'{"stop":"yes"}', "stop"),
    *[(name, b"[1]", "Expected `object`") for name in BACKENDS],
    *[(name, b'{"half":', "truncated") for name in BACKENDS],
]


@pytest.mark.parametrize(("name", "event", "chunk"), READ)
def test_what_may_be_absent_or_null_is_read(name: str, event: dict[str, Any], chunk: Chunk) -> None:
    assert BACKENDS[name].chunk(json.encode({**event, "further": [{"field": 1}]})) == chunk


@pytest.mark.parametrize(("name", "data", "place"), REFUSED)
def test_a_wrong_shape_is_refused_and_its_place_named(name: str, data: bytes, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        BACKENDS[name].chunk(data)
