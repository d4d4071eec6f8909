"""SGLang: the request for a prompt, and what an event of its stream says."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import Decoder

from backends.base import Call, Chunk, Request, RequestSpeculation, error_text

MASKED = -1e9
"""Added to a logit that must not win: JSON has no infinity."""

T = TypeVar("T")


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


class Finish(Struct, gc=False):
    type: str | None = None
    message: str | None = None


class Top(Struct, gc=False, array_like=True):
    logprob: float
    token: int


class Meta(Struct, gc=False):
    """The record of speculation has the names that SGLang gave it over its versions."""

    finish_reason: Finish | str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    output_top_logprobs: list[list[Top] | None] | None = None
    spec_verify_ct: int | None = None
    spec_num_proposed_drafts: int | None = None
    spec_draft_token_num: int | None = None
    spec_num_correct_drafts: int | None = None
    spec_accepted_drafts: int | None = None
    spec_accept_token_num: int | None = None
    spec_correct_drafts_histogram: tuple[int, ...] | None = None
    spec_accept_histogram: tuple[int, ...] | None = None


class Event(Struct, gc=False):
    output_ids: tuple[int, ...] = ()
    meta_info: Meta | None = None
    error: Any = None


NO_META = Meta()
_event = Decoder(Event).decode


def chunk(data: bytes) -> Chunk:
    event = _event(data)
    if event.error is not None:
        return Chunk(error=error_text(event.error))
    meta = event.meta_info or NO_META
    reason, top = meta.finish_reason, meta.output_top_logprobs
    finish = reason.type if isinstance(reason, Finish) else reason
    if finish == "abort":
        told = reason.message if isinstance(reason, Finish) else None
        return Chunk(error=f"aborted by the server: {told or 'no reason given'}")
    return Chunk(
        event.output_ids,
        finish,
        meta.prompt_tokens,
        meta.completion_tokens,
        _request_speculation(meta) if finish else None,
        None,
        tuple((one.token, one.logprob) for one in top[0] or ()) if top else (),
    )


def _request_speculation(meta: Meta) -> RequestSpeculation | None:
    if meta.spec_verify_ct is None:
        return None
    return RequestSpeculation(
        steps=meta.spec_verify_ct,
        drafted=_first(meta.spec_num_proposed_drafts, meta.spec_draft_token_num),
        accepted=_first(
            meta.spec_num_correct_drafts, meta.spec_accepted_drafts, meta.spec_accept_token_num
        ),
        histogram=_first(meta.spec_correct_drafts_histogram, meta.spec_accept_histogram) or None,
    )


def _first(*told: T | None) -> T | None:
    return next((one for one in told if one is not None), None)
