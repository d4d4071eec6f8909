"""SGLang: the request for a prompt, and what an event of its stream says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.base import Call, Chunk, Request, RequestSpeculation, error_text

MASKED = -1e9
"""Added to a logit that must not win: JSON has no infinity."""

ACCEPTED_KEYS = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
DRAFTED_KEYS = ("spec_num_proposed_drafts", "spec_draft_token_num")
HISTOGRAM_KEYS = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def call(request: Request, model: str) -> Call:
    del model
    sampling = request.sampling
    params: dict[str, Any] = {
        "max_new_tokens": request.max_tokens,
        "min_new_tokens": 0,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k if sampling.top_k > 0 else -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop_token_ids": list(request.end_token_ids),
        "ignore_eos": False,
        "skip_special_tokens": False,
        "sampling_seed": request.seed,
    }
    if request.fixed_length:
        # Not min_new_tokens: with a drafter it lets end tokens through (seen on 0.5.23).
        params["logit_bias"] = {str(token): MASKED for token in request.end_token_ids}
    body = {"input_ids": list(request.prompt_ids), "sampling_params": params, "stream": True}
    if request.top_tokens:
        body |= {"return_logprob": True, "top_logprobs_num": request.top_tokens}
    return Call("/generate", body)


def chunk(event: Mapping[str, Any]) -> Chunk:
    if "error" in event:
        return Chunk(error=error_text(event["error"]))
    meta = event.get("meta_info") or {}
    ids = event.get("output_ids", [])
    if not isinstance(ids, list):
        raise ValueError(f"output_ids is a {type(ids).__name__}, not a list")
    reason = meta.get("finish_reason")
    finish = reason.get("type") if isinstance(reason, dict) else reason
    if finish == "abort":
        told = reason.get("message") if isinstance(reason, dict) else None
        return Chunk(error=f"aborted by the server: {told or 'no reason given'}")
    top = meta.get("output_top_logprobs")
    return Chunk(
        tuple(ids),
        finish,
        meta.get("prompt_tokens"),
        meta.get("completion_tokens"),
        _request_speculation(meta) if finish else None,
        None,
        tuple((token, logprob) for logprob, token, *_ in top[0] or ()) if top else (),
    )


def _request_speculation(meta: Mapping[str, Any]) -> RequestSpeculation | None:
    """Reads `meta_info` under the key names SGLang has used over its versions."""

    def first(keys: tuple[str, ...]) -> Any:
        return next((meta[key] for key in keys if meta.get(key) is not None), None)

    steps = meta.get("spec_verify_ct")
    if steps is None:
        return None
    histogram = first(HISTOGRAM_KEYS)
    return RequestSpeculation(
        steps=steps,
        drafted=first(DRAFTED_KEYS),
        accepted=first(ACCEPTED_KEYS),
        histogram=tuple(histogram) if histogram else None,
    )
