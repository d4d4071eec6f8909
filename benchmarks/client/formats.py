"""What a stream looks like on the wire: every chunk of it, made before it is needed.

One element is what leaves in one write: all tokens of a step, as HTTP chunks, in the engine's own
event format. The last one also carries the end: finish reason, usage, [DONE].
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

PATHS = {
    "/v1/completions": "completions",
    "/v1/chat/completions": "chat",
    "/generate": "sglang",
    "/completion": "llamacpp",
}
WORD = " a"
"""One token of tiny-muse's tokenizer, however often it is repeated."""
PROMPT_TOKENS = 8
VOCABULARY = 500
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@cache
def writes(name: str, tokens: int, per_chunk: int, with_ids: bool) -> tuple[bytes, ...]:
    """The writes of one answer of `tokens` tokens, `per_chunk` a step.

    `with_ids` is vLLM's `return_token_ids`; SGLang and llama.cpp always tell them.
    """
    made = []
    for first in range(0, tokens, per_chunk):
        last = min(first + per_chunk, tokens)
        events: list[dict[str, Any] | str] = [*_step(name, range(first, last), tokens, with_ids)]
        if last == tokens:
            events += _end(name, tokens)
        made.append(b"".join(_framed(event) for event in events))
    made[-1] += b"0\r\n\r\n"
    return tuple(made)


def token_id(place: int) -> int:
    """Of the token at `place` in every answer."""
    return 3 + place % VOCABULARY


def _framed(event: dict[str, Any] | str) -> bytes:
    text = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def _step(name: str, places: Sequence[int], total: int, with_ids: bool) -> list[dict[str, Any]]:
    ids = [token_id(place) for place in places]
    done = places[-1] + 1
    text = WORD * len(ids)
    if name == "llamacpp":
        return [
            {"index": 0, "content": WORD, "tokens": [token], "stop": False, "id_slot": 0}
            | {"tokens_predicted": place + 1, "tokens_evaluated": PROMPT_TOKENS}
            for place, token in zip(places, ids, strict=True)
        ]
    finish = "length" if done == total else None
    if name == "sglang":
        reason = {"type": finish, "length": total} if finish else None
        meta = {"id": "1", "finish_reason": reason, "prompt_tokens": PROMPT_TOKENS}
        return [{"text": text, "output_ids": ids, "meta_info": meta | {"completion_tokens": done}}]
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
    if name == "chat":
        role = {"role": "assistant"} if places[0] == 0 else {}
        choice["delta"] = role | {"content": text}
    else:
        choice |= {"text": text, "stop_reason": None}
    if with_ids:
        choice["token_ids"] = ids
    return [_openai(name) | {"choices": [choice]}]


def _end(name: str, total: int) -> list[dict[str, Any] | str]:
    if name == "llamacpp":
        final = {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "limit"}
        return [final | {"tokens_predicted": total, "tokens_evaluated": PROMPT_TOKENS}]
    if name == "sglang":
        return ["[DONE]"]
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": total}
    usage["total_tokens"] = PROMPT_TOKENS + total
    return [_openai(name) | {"choices": [], "usage": usage}, "[DONE]"]


def _openai(name: str) -> dict[str, Any]:
    kind = "chat.completion.chunk" if name == "chat" else "text_completion"
    return {"id": "cmpl-1", "object": kind, "created": 1, "model": "mock"}
