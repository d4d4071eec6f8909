"""Weights that one step reads: what bounds its time where memory is the limit.

Counted are the matrices of the layers and the output head, each once: a batch of drafts is verified
in one pass. Of embedding tables one row is read, so they count for nothing; the vision tower takes
no part. The KV cache is left out: it is 0.3 % of the weights at 8192 tokens of the 30B.
A drafter runs once a step and reads the target's output head too. A DSpark head reads its second
Markov matrix once for each draft, as each follows from the one before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Drafter, Weights
from backends.errors import InputError, MuseorchError
from orchestrator.planning.headers import json_object, read_headers

EMBEDDINGS = re.compile(r"(^|\.)(embed_tokens|markov_w1)\.weight$")
HEAD = re.compile(r"(^|\.)lm_head\.weight$|^output\.weight$")
MARKOV = re.compile(r"(^|\.)markov_w2\.weight$")
VISION = re.compile(r"(^|\.)vision_")
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class Read:
    """Bytes that a pass over one artefact reads."""

    total: int
    head: int
    """The output head's part; 0 where it has none of its own."""
    markov: int = 0


def step_bytes(
    target: Weights, drafter: Drafter | None, draft_tokens: int | None
) -> dict[str, Any]:
    """`{"target": bytes, "drafter": bytes}`, the drafter's 0 without one; or `{"reason": ...}`."""
    try:
        own = _read(target)
        drafted = 0
        if drafter is not None:
            head = _read(drafter.weights, drafts=True)
            drafted = head.total + (0 if head.head else own.head)
            drafted += head.markov * ((draft_tokens or 1) - 1)
        return {"target": own.total, "drafter": drafted}
    except MuseorchError as error:
        return {"reason": error.message}


def _read(weights: Weights, *, drafts: bool = False) -> Read:
    path = Path(weights.path)
    if weights.format == "gguf":
        return _gguf(path)
    if path.is_dir() and not any(path.glob("*.safetensors")):
        return _of_shape(json_object(path / "config.json"), path)
    sizes = read_headers(path).sizes
    kept = {name: size for name, size in sizes.items() if not VISION.search(name)}
    head = sum(size for name, size in kept.items() if HEAD.search(name))
    tied = 0
    if not head and not drafts:  # its embeddings are its head
        tied = sum(size for name, size in kept.items() if name.endswith("embed_tokens.weight"))
    read = sum(size for name, size in kept.items() if not EMBEDDINGS.search(name))
    markov = sum(size for name, size in kept.items() if MARKOV.search(name))
    return Read(read + tied, head + tied, markov)


def _gguf(path: Path) -> Read:
    # The gguf package is slow to import, and a plan needs none of it.
    from orchestrator.gguf import contents
    from orchestrator.gguf.show import bytes_per_token

    found = contents.read(path)
    tensors = found.tensors
    head = sum(one.bytes for name, one in tensors.items() if HEAD.search(name))
    if not head and found.family is None:
        head = tensors["token_embd.weight"].bytes if "token_embd.weight" in tensors else 0
    markov = sum(one.bytes for name, one in tensors.items() if MARKOV.search(name))
    return Read(bytes_per_token(found), head, markov)


def _of_shape(config: Mapping[str, Any], path: Path) -> Read:
    """Dummy weights: matrices alone, as norms are too small to matter."""
    text = config.get("text_config", config)
    try:
        hidden, layers = text["hidden_size"], text["num_hidden_layers"]
        heads, kv = text["num_attention_heads"], text["num_key_value_heads"]
        attention = hidden * text["head_dim"] * (2 * heads + 2 * kv)
        if text is not config:  # the target's attention is gated
            attention += hidden * text["head_dim"] * heads
        width = WIDTHS[str(config.get("dtype", config.get("torch_dtype", "bfloat16")))]
        read = layers * (attention + 3 * hidden * text["intermediate_size"])
        if text is not config:
            head = text["vocab_size"] * hidden
            return Read((read + head) * width, head * width)
        read += len(config["target_layer_ids"]) * hidden * hidden
        markov = config["vocab_size"] * config["markov_rank"] if "markov_rank" in config else 0
    except KeyError as error:
        raise InputError(f"does not say {error.args[0]}.", where=str(path)) from None
    return Read((read + markov) * width, 0, markov * width)
