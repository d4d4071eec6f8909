"""vLLM: the request for a prompt, and what an event of its stream says."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from backends.base import Call, Chunk, Request, RequestSpeculation, error_text


def call(request: Request, model: str) -> Call:
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(request.prompt_ids),
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop_token_ids": list(request.end_token_ids),
        "ignore_eos": False,
        # Masks the end tokens until that many tokens are out, with a drafter too.
        "min_tokens": request.max_tokens if request.fixed_length else 0,
        "skip_special_tokens": False,
    }
    if request.top_tokens:
        body |= {"logprobs": request.top_tokens, "return_tokens_as_token_ids": True}
    return Call("/v1/completions", body)


class Logprobs(Struct, gc=False):
    top_logprobs: list[dict[str, float] | None] | None = None
    """Keys are `token_id:7`, as asked for with return_tokens_as_token_ids."""


class Choice(Struct, gc=False):
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None


class Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Drafting(Struct, gc=False):
    num_spec_steps: int | None = None
    num_draft_tokens: int | None = None
    acceptance_histogram: tuple[int, ...] | None = None


class Metrics(Struct, gc=False):
    speculative_decoding: Drafting | None = None


class Event(Struct, gc=False):
    choices: tuple[Choice, ...] | None = None
    usage: Usage | None = None
    metrics: Metrics | None = None
    error: Any = None


NO_CHOICE = Choice()
_event = Decoder(Event).decode


def chunk(data: bytes) -> Chunk:
    event = _event(data)
    if event.error is not None:
        return Chunk(error=error_text(event.error))
    choice = event.choices[0] if event.choices else NO_CHOICE
    usage, metrics, logprobs = event.usage, event.metrics, choice.logprobs
    return Chunk(
        choice.token_ids or (),
        choice.finish_reason,
        usage.prompt_tokens if usage else None,
        usage.completion_tokens if usage else None,
        _request_speculation(metrics.speculative_decoding) if metrics else None,
        None,
        _top(logprobs) if logprobs else (),
    )


def _top(logprobs: Logprobs) -> tuple[tuple[int, float], ...]:
    rows = logprobs.top_logprobs
    first = rows[0] if rows else None
    return tuple(
        (int(key.removeprefix("token_id:")), value) for key, value in (first or {}).items()
    )


def _request_speculation(told: Drafting | None) -> RequestSpeculation | None:
    if told is None:
        return None
    histogram = told.acceptance_histogram or None
    return RequestSpeculation(
        steps=told.num_spec_steps,
        drafted=told.num_draft_tokens,
        accepted=sum(j * n for j, n in enumerate(histogram)) if histogram else None,
        histogram=histogram,
    )
