"""Asking for the likeliest tokens, and reading them, as the three real servers answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import json

from backends import BACKENDS
from backends.base import Request, Sampling

ASKED = Request("p", (0, 7), 1, Sampling(0.0), 1, (1, 2), fixed_length=False, top_tokens=2)
EVENTS: dict[str, dict[str, Any]] = {
    "llamacpp": {
        "tokens": [310],
        "stop": False,
        "completion_probabilities": [
            {
                "id": 310,
                "logprob": -0.1,
                "top_logprobs": [
                    {"id": 310, "token": " to", "logprob": -0.1},
                    {"id": 451, "token": "name", "logprob": -2.5},
                ],
            }
        ],
    },
    "sglang": {
        "output_ids": [310],
        "meta_info": {"output_top_logprobs": [[[-0.1, 310, None], [-2.5, 451, None]]]},
    },
    "vllm": {
        "choices": [
            {
                "token_ids": [310],
                "logprobs": {"top_logprobs": [{"token_id:310": -0.1, "token_id:451": -2.5}]},
            }
        ]
    },
}
SENT = {
    "llamacpp": {"n_probs": 2},
    "sglang": {"return_logprob": True, "top_logprobs_num": 2},
    "vllm": {"logprobs": 2, "return_tokens_as_token_ids": True},
}


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_they_are_asked_for_only_when_wanted(name: str) -> None:
    body = BACKENDS[name].call(ASKED, "muse").body
    assert SENT[name].items() <= body.items()
    plain = BACKENDS[name].call(replace(ASKED, top_tokens=0), "muse").body
    assert not SENT[name].keys() & plain.keys()


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_they_are_read_with_their_ids(name: str) -> None:
    chunk = BACKENDS[name].chunk(json.encode(EVENTS[name]))
    assert chunk.token_ids == (310,)
    assert chunk.top == ((310, -0.1), (451, -2.5))
