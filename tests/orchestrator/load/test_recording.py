"""Streams that nobody can read end in a sample that says so."""

from __future__ import annotations

import pytest

from backends import BACKENDS
from backends.base import Request, Sampling
from orchestrator.load.recording import PhaseContext, Recording, to_sample
from orchestrator.load.sample import Sample
from orchestrator.load.transport import Stamps

ASKED = Request("p", (0, 7), 4, Sampling(0.0), 1, (1, 2), fixed_length=True)
TOKEN = b'data: {"choices":[{"token_ids":[5]}]}\n\n'
DEEP = b"[" * 100_000


def parsed(*parts: bytes, status: int = 200) -> Sample:
    stamps = Stamps(sent_ns=1, body=list(enumerate(parts, start=2)))
    recording = Recording(ASKED, 0, stamps, ended_ns=9, status=status)
    return to_sample(recording, BACKENDS["vllm"], PhaseContext("a", "greedy", 0), 1)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'{"choices":[{"token_ids":"ab"}]}', "at `$.choices[0].token_ids`): {"),
        (b'{"half":', 'truncated): {"half":'),
        (b'{"further":' + DEEP, "maximum recursion depth exceeded while deserializing"),
    ],
)
def test_what_came_before_an_event_that_is_not_understood_is_kept(data: bytes, error: str) -> None:
    found = parsed(TOKEN, b"data: " + data + b"\n\n", TOKEN)
    assert found.chunks == ((2, (5,)),)
    assert found.error is not None
    assert found.error.startswith("event not understood (")
    assert error in found.error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b'{"error":{"message":"no"}}', "no"),
        (b'{"message":"no"}', "no"),
        (b"[1]", "[1]"),
        (DEEP[:9], DEEP[:9].decode()),
        (b"", "no text"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(text: bytes, error: str) -> None:
    assert parsed(text, status=400).error == f"HTTP 400: {error}"


def test_a_refusal_that_nests_too_deep_is_told_as_it_is() -> None:
    assert str(parsed(DEEP, status=400).error).startswith("HTTP 400: [[[")
