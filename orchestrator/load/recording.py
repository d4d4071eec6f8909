"""From a recorded stream to a Sample: done when the stream has ended, away from the event loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import json

from backends.base import Request, RequestSpeculation
from backends.protocol import Backend
from orchestrator.load.sample import Sample
from orchestrator.load.stream import events
from orchestrator.load.transport import Stamps

ERROR_CHARS = 400


@dataclass(frozen=True)
class PhaseContext:
    """Which part of the run the requests belong to."""

    arm: str
    mode: str
    repeat: int


@dataclass
class Recording:
    """One request as the hot path leaves it."""

    request: Request
    free_ns: int
    """When there was a free slot for it."""
    stamps: Stamps = field(default_factory=Stamps)
    ended_ns: int = 0
    status: int | None = None
    """Of the response, None where there was none to its end."""
    error: str | None = None


def to_sample(
    recording: Recording, backend: Backend, context: PhaseContext, concurrency: int
) -> Sample:
    """Take a stream apart. The first failure is kept; the chunks before it too."""
    chunks: list[tuple[int, tuple[int, ...]]] = []
    finish: str | None = None
    server: RequestSpeculation | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    problem: str | None = None
    count = 0
    read = backend.chunk
    refused = recording.status not in (None, 200)
    for at, data in () if refused else events(recording.stamps.body):
        try:
            chunk = read(data)
        except (ValueError, RecursionError) as error:
            problem = f"event not understood ({error}): {data[:120].decode(errors='replace')}"
            break
        if chunk.error is not None:
            problem = chunk.error
            break
        ids, completion = chunk.token_ids, chunk.completion_tokens
        # SGLang sends either what is new or everything so far. Its running count tells which: only
        # in the second case is it the length of this very event's ids.
        if completion == len(ids):
            ids = ids[count:]
        if ids:
            chunks.append((at, ids))
            count += len(ids)
        if chunk.finish is not None:
            finish = chunk.finish
        if chunk.speculation is not None:
            server = chunk.speculation
        if chunk.prompt_tokens is not None:
            prompt_tokens = chunk.prompt_tokens
        if completion is not None:
            completion_tokens = completion
    if refused:
        problem = _refusal(recording)
    elif problem is None:
        problem = recording.error
    if problem is None and finish is None:
        problem = f"the stream ended after {count} tokens without a finish reason"
    request, sent = recording.request, recording.stamps.sent_ns
    return Sample(
        request_id=f"{context.arm}/{context.mode}/c{concurrency}/r{context.repeat}/{request.id}",
        prompt_id=request.id,
        arm=context.arm,
        mode=context.mode,
        concurrency=concurrency,
        repeat=context.repeat,
        seed=request.seed,
        prompt_tokens=len(request.prompt_ids),
        t_send_ns=sent if sent is not None else recording.free_ns,
        chunks=tuple(chunks),
        t_end_ns=recording.ended_ns,
        finish=finish,
        server=server,
        server_prompt_tokens=prompt_tokens,
        server_completion_tokens=completion_tokens,
        error=_one_line(problem) if problem is not None else None,
    )


def _refusal(recording: Recording) -> str:
    """`HTTP 400: what the server says`."""
    text = b"".join(part for _, part in recording.stamps.body).decode(errors="replace")
    try:
        answer = json.decode(text)
        error = answer.get("error", answer)
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, AttributeError, KeyError, RecursionError):
        pass
    return f"HTTP {recording.status}: {text or 'no text'}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ERROR_CHARS else f"{line[: ERROR_CHARS - 1]}…"
