"""vLLM: the request for a prompt, and what an event of its stream says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def chunk(event: Mapping[str, Any]) -> Chunk:
    if "error" in event:
        return Chunk(error=error_text(event["error"]))
    tokens: tuple[int, ...] = ()
    finish = logprobs = None
    if choices := event.get("choices"):
        choice = choices[0]
        ids = choice.get("token_ids")
        if ids is not None and not isinstance(ids, list):
            raise ValueError(f"choices[0].token_ids is a {type(ids).__name__}, not a list")
        tokens = tuple(ids) if ids else ()
        finish, logprobs = choice.get("finish_reason"), choice.get("logprobs")
    usage, metrics = event.get("usage") or {}, event.get("metrics")
    return Chunk(
        tokens,
        finish,
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        _request_speculation(metrics) if metrics else None,
        None,
        _top(logprobs) if logprobs else (),
    )


def _top(logprobs: Any) -> tuple[tuple[int, float], ...]:
    """Keys are `token_id:7`, as asked for with return_tokens_as_token_ids."""
    if not isinstance(logprobs, dict):
        return ()
    rows = logprobs.get("top_logprobs")
    first = rows[0] if rows else {}
    return tuple((int(key.removeprefix("token_id:")), value) for key, value in first.items())


def _request_speculation(metrics: Any) -> RequestSpeculation | None:
    told = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(told, dict):
        return None
    histogram = told.get("acceptance_histogram")
    return RequestSpeculation(
        steps=told.get("num_spec_steps"),
        drafted=told.get("num_draft_tokens"),
        accepted=sum(j * n for j, n in enumerate(histogram)) if histogram else None,
        histogram=tuple(histogram) if histogram else None,
    )
