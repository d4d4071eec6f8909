"""llama-server: the request for a prompt, and what an event of its stream says."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

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


class Candidate(Struct, gc=False):
    id: int
    logprob: float


class Probabilities(Struct, gc=False):
    top_logprobs: list[Candidate] = []


class Timings(Struct, gc=False):
    """Both are absent, not 0, when nothing was drafted."""

    draft_n: int | None = None
    draft_n_accepted: int | None = None


class Event(Struct, gc=False):
    tokens: tuple[int, ...] = ()
    stop: bool = False
    stop_type: str = ""
    tokens_evaluated: int | None = None
    tokens_predicted: int | None = None
    timings: Timings | None = None
    completion_probabilities: list[Probabilities] | None = None
    error: Any = None


FINISH = {"limit": "length", "eos": "stop", "word": "stop"}
_event = Decoder(Event).decode


def chunk(data: bytes) -> Chunk:
    event = _event(data)
    if event.error is not None:
        return Chunk(error=error_text(event.error))
    if not event.stop:
        rows = event.completion_probabilities
        return Chunk(event.tokens, top=_top(rows[0]) if rows else ())
    return Chunk(
        token_ids=event.tokens,
        finish=FINISH.get(event.stop_type, event.stop_type),
        prompt_tokens=event.tokens_evaluated,
        completion_tokens=event.tokens_predicted,
        speculation=_request_speculation(event),
    )


def _top(row: Probabilities) -> tuple[tuple[int, float], ...]:
    return tuple((one.id, one.logprob) for one in row.top_logprobs)


def _request_speculation(event: Event) -> RequestSpeculation | None:
    """The server tells no steps per request. Where a reply ends at its length they follow: drafts
    never reach beyond what is left to generate, so every accepted draft came out, and each pass
    after the first token gave one token more than it accepted.
    """
    if event.timings is None or event.timings.draft_n is None:
        return None
    accepted, predicted, steps = event.timings.draft_n_accepted, event.tokens_predicted, None
    if event.stop_type == "limit" and accepted is not None and predicted is not None:
        steps = predicted - 1 - accepted
    return RequestSpeculation(steps=steps, drafted=event.timings.draft_n, accepted=accepted)
