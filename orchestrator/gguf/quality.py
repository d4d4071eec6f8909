"""What quantising costs a target: its distributions against a reference's, on one text.

Both are served by llama-server. For every position of the text it is asked for the whole
distribution of the next token, so nothing is sampled and nothing is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from backends import BACKENDS
from backends.base import Request, Sampling, ServeSpec, Weights
from backends.errors import EngineError, InputError
from orchestrator.environments.engines import Engine
from orchestrator.gguf.contents import Contents, read
from orchestrator.serving.serve import Server, serve

SPARE_TOKENS = 16
TIMEOUT_S = 600.0
UNSEEN = -100.0
"""Logarithm for a token the server does not list, as its probability is 0 in single precision."""

Watch = Callable[[str, int, int], None]
"""Told: file, positions done, positions."""


@dataclass(frozen=True)
class Quality:
    file: Path
    positions: int
    perplexity: float
    """exp of the mean negative log probability of the text's own next token."""
    top1_agreement: float
    """Share of positions where the likeliest token is the reference's."""
    divergence: float
    """Mean Kullback-Leibler divergence from the reference, in nats."""


def quality(
    reference: Path,
    files: Sequence[Path],
    text: str,
    *,
    engine: Engine,
    folder: Path,
    tokens: int,
    threads: int | None,
    watch: Watch,
) -> Iterator[Quality]:
    """Of the reference, then of each file. `tokens`: how much of the text is used, BOS included.

    Server logs go into `folder`. Raises InputError for a file that is no target or has another
    vocabulary, or a text that is too short; EngineError where the server fails.
    """
    found = [read(path) for path in (reference, *files)]
    vocabulary = found[0].headers.tokens
    if vocabulary is None:
        raise InputError("has no vocabulary.", where=str(reference))
    for contents in found:
        _check(contents, vocabulary)
    ids: list[int] = []
    base: NDArray[np.float32] | None = None
    for number, contents in enumerate(found):
        place = folder / f"{number}-{contents.path.stem}"
        with served(contents, engine, place, tokens, threads) as server:
            if base is None:
                ids = text_tokens(server, text, tokens)
            rows = []
            for end in range(1, len(ids)):
                rows.append(distribution(server, ids[:end], vocabulary))
                watch(contents.path.name, end, len(ids) - 1)
        logs = np.stack(rows)
        base = logs if base is None else base
        yield compare(contents.path, logs, base, ids[1:])


def compare(
    file: Path, logs: NDArray[np.float32], base: NDArray[np.float32], following: Sequence[int]
) -> Quality:
    """From log probabilities [positions, vocabulary] and the tokens that really follow."""
    own = logs[np.arange(len(following)), following].astype(np.float64)
    weights = np.exp(base.astype(np.float64))
    divergence = np.sum(weights * (base.astype(np.float64) - logs), axis=1)
    return Quality(
        file,
        len(following),
        math.exp(-float(own.mean())),
        float(np.mean(logs.argmax(axis=1) == base.argmax(axis=1))),
        float(divergence.mean()),
    )


def _check(contents: Contents, vocabulary: int) -> None:
    where = str(contents.path)
    if contents.family is not None:
        raise InputError("is a drafter; perplexity is of targets.", where=where)
    if contents.headers.tokens != vocabulary:
        raise InputError(
            f"has {contents.headers.tokens} tokens, the reference {vocabulary}.", where=where
        )


@contextmanager
def served(
    contents: Contents, engine: Engine, folder: Path, tokens: int, threads: int | None
) -> Iterator[Server]:
    """A llama-server for one sequence of `tokens`; its log goes into `folder`."""
    backend = BACKENDS["llamacpp"]
    spec = ServeSpec(
        executable=str(engine.executable),
        engine_version=engine.version,
        device=engine.device,
        target=Weights(str(contents.path.resolve()), "gguf", "unknown", contents.path.stem),
        drafter=None,
        draft_tokens=None,
        context_length=tokens + SPARE_TOKENS,
        slots=1,
        threads=threads,
    )
    bos = contents.token_id("bos")
    first = bos if bos is not None else 0
    probe = Request("probe", (first,), 1, Sampling(0.0), 1, (), False)
    folder.mkdir(parents=True, exist_ok=True)
    with serve(
        backend.plan(spec), backend, folder=folder, probe=probe, model=spec.served_name
    ) as server:
        yield server


def text_tokens(server: Server, text: str, most: int) -> list[int]:
    """The first of the text, with BOS where the model takes one."""
    found = _post(server, "/tokenize", {"content": text, "add_special": True})
    ids = [int(token) for token in found["tokens"]][:most]
    if len(ids) < 2:
        raise InputError("the text has fewer than two tokens.", where="--text")
    return ids


def distribution(
    server: Server, ids: Sequence[int], vocabulary: int, *, cached: bool = True
) -> NDArray[np.float32]:
    """Log probability of every token after `ids`. `cached`: only what is new is computed."""
    body = {
        "prompt": list(ids),
        "n_predict": 1,
        "n_probs": vocabulary,
        "temperature": 0.0,
        "cache_prompt": cached,
    }
    found = _post(server, "/completion", body)
    row = np.full(vocabulary, UNSEEN, dtype=np.float32)
    for entry in found["completion_probabilities"][0]["top_logprobs"]:
        row[entry["id"]] = max(entry["logprob"], UNSEEN)
    return row


def _post(server: Server, path: str, body: dict[str, Any]) -> Any:
    try:
        # As in serve: no proxy between museorch and its child.
        answer = httpx.post(
            server.url + path, json=body, timeout=TIMEOUT_S, trust_env=False, verify=False
        )
        return answer.raise_for_status().json()
    except httpx.HTTPError as error:
        reason = server.exit_reason(wait_s=1.0) or str(error) or type(error).__name__
        raise EngineError(f"no answer: {reason}", where=server.name) from None
