"""llama-server: the request for a prompt, and what an event of its stream says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.base import Call, Chunk, Request, RequestSpeculation, error_text

SAMPLED_ORDER = ["temperature", "top_k", "top_p"]
GREEDY_ORDER = ["top_k", "temperature", "top_p"]


def call(request: Request, model: str) -> Call:
    del model
    sampling = request.sampling
    body: dict[str, Any] = {
        "prompt": list(request.prompt_ids),
        "n_predict": request.max_tokens,
        "stream": True,
        "return_tokens": True,
        "cache_prompt": False,
        "seed": request.seed,
        "ignore_eos": request.fixed_length,
        # The server's own order puts temperature last. Greedy, nothing depends on the order, and
        # top-k first leaves the others one token of the vocabulary: a third of the time.
        "samplers": GREEDY_ORDER if sampling.greedy else SAMPLED_ORDER,
        "temperature": sampling.temperature,
        "top_k": 1 if sampling.greedy else sampling.top_k,
        "top_p": 1.0 if sampling.greedy else sampling.top_p,
        "min_p": 0.0,
        "typical_p": 1.0,
        "top_n_sigma": -1.0,
        "xtc_probability": 0.0,
        "dynatemp_range": 0.0,
        "mirostat": 0,
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "dry_multiplier": 0.0,
    }
    if request.fixed_length:
        body["logit_bias"] = [[token, False] for token in request.end_token_ids]
    if request.top_tokens:
        body["n_probs"] = request.top_tokens
    return Call("/completion", body)


def chunk(event: Mapping[str, Any]) -> Chunk:
    if "error" in event:
        return Chunk(error=error_text(event["error"]))
    tokens = event.get("tokens", [])
    if not isinstance(tokens, list):
        raise ValueError(f"tokens is a {type(tokens).__name__}, not a list")
    if not event.get("stop"):
        return Chunk(token_ids=tuple(tokens), top=_top(event))
    stop_type = str(event.get("stop_type", ""))
    return Chunk(
        token_ids=tuple(tokens),
        finish={"limit": "length", "eos": "stop", "word": "stop"}.get(stop_type, stop_type),
        prompt_tokens=event.get("tokens_evaluated"),
        completion_tokens=event.get("tokens_predicted"),
        speculation=_request_speculation(event, stop_type),
    )


def _top(event: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    rows = event.get("completion_probabilities")
    if not rows:
        return ()
    return tuple((row["id"], row["logprob"]) for row in rows[0].get("top_logprobs", ()))


def _request_speculation(event: Mapping[str, Any], stop_type: str) -> RequestSpeculation | None:
    """draft_n and draft_n_accepted are absent, not 0, when nothing was drafted.

    The server tells no steps per request. Where a reply ends at its length they follow: drafts
    never reach beyond what is left to generate, so every accepted draft came out, and each pass
    after the first token gave one token more than it accepted.
    """
    timings = event.get("timings", {})
    accepted, predicted = timings.get("draft_n_accepted"), event.get("tokens_predicted")
    if "draft_n" not in timings:
        return None
    steps = None
    if stop_type == "limit" and isinstance(accepted, int) and isinstance(predicted, int):
        steps = predicted - 1 - accepted
    return RequestSpeculation(steps=steps, drafted=timings["draft_n"], accepted=accepted)
