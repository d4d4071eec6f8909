"""What a GGUF file is, in one page: `museorch gguf show`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from orchestrator.gguf.contents import Contents, Tensor
from orchestrator.gguf.known import KNOWN

CLASSES = (
    ("token embeddings", r"^token_embd\."),
    ("output head", r"^output\."),
    ("Markov head", r"^markov_"),
    ("confidence head", r"^conf"),
    ("target features", r"^fc\."),
    ("norms", r"norm"),
    ("attention", r"\.attn_"),
    ("feed-forward", r"\.ffn_"),
)
"""Class and what its names match; the first that fits counts."""

LOOKED_UP = ("token_embd.weight", "markov_w1.weight")
"""Tables of which a token reads one row."""


def summary(contents: Contents) -> dict[str, Any]:
    """Plain values, as `--json` prints them. None is `the file does not say`."""
    config = contents.headers.config
    family = contents.family
    block = contents.get("block_size")
    ends = [contents.token_id("eos"), contents.token_id("eot")]
    known = KNOWN.get(contents.bytes)
    return {
        "file": str(contents.path),
        "bytes": contents.bytes,
        "needed_bytes": contents.needed_bytes,
        "architecture": contents.architecture,
        "role": "drafter" if family else "target",
        "family": family,
        "name": config.get("general.name"),
        "layers": contents.get("block_count"),
        "hidden_size": contents.get("embedding_length"),
        "vocab_size": contents.headers.tokens,
        "context_length": contents.get("context_length"),
        "sliding_window": contents.get("attention.sliding_window"),
        "sliding_window_pattern": contents.get("attention.sliding_window_pattern"),
        "block_size": block,
        "draft_tokens": block - 1 if block is not None else None,
        "target_layers": contents.get("target_layers"),
        "sample_from_anchor": contents.get("sample_from_anchor"),
        "tokens": {
            "bos": contents.token_id("bos"),
            "end": [token for token in ends if token is not None],
            "pad": contents.token_id("padding"),
            "mask": contents.token_id("mask"),
            "eot": contents.token_id("eot"),
        },
        "tokenizer": config.get("tokenizer.ggml.pre"),
        "quantisation": _classes(contents),
        "bytes_per_token": bytes_per_token(contents),
        "published_as": None
        if known is None
        else {"old_name": known.old_name, "new_name": known.new_name, "sha256": known.sha256},
    }


def bytes_per_token(contents: Contents) -> int:
    """Weights one forward pass reads for one token, for the roofline.

    Of a table that is looked up, one row. A target without an output head uses its embeddings as
    one. A drafter's pass also reads its target's output head, which is in the target's file.
    """
    tied = contents.family is None and "output.weight" not in contents.tensors
    looked_up = LOOKED_UP[1:] if tied else LOOKED_UP
    return sum(t.row_bytes if t.name in looked_up else t.bytes for t in contents.tensors.values())


def _classes(contents: Contents) -> list[dict[str, Any]]:
    found: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in contents.tensors.values():
        found[_class(tensor.name)].append(tensor)
    rows = []
    for name, tensors in found.items():
        types: dict[str, int] = defaultdict(int)
        for tensor in tensors:
            types[tensor.type] += 1
        rows.append({"class": name, "types": dict(types), "bytes": sum(t.bytes for t in tensors)})
    return sorted(rows, key=lambda row: -row["bytes"])


def _class(name: str) -> str:
    return next((title for title, rule in CLASSES if re.search(rule, name)), "other")


def lines(found: dict[str, Any]) -> Iterator[str]:
    """`summary` for a person."""
    tokens = found["tokens"]
    yield f"{found['file']}: {found['architecture']}, {found['family'] or 'target'}"
    needed = found["needed_bytes"]
    cut = f", cut off: {needed:,} are needed" if found["bytes"] < needed else ""
    yield f"  size             {found['bytes']:,} bytes{cut}"
    if found["published_as"]:
        names = found["published_as"]
        yield f"  published as     {names['new_name']} (before: {names['old_name']}), by its size;"
        yield "                   its hash is not known"
    yield f"  layers           {_said(found['layers'])}, hidden size {_said(found['hidden_size'])}"
    yield f"  vocabulary       {_said(found['vocab_size'])}, split as {_said(found['tokenizer'])}"
    pattern = found["sliding_window_pattern"]
    shown = "" if pattern is None else " on layers " + _runs(pattern)
    yield f"  sliding window   {_said(found['sliding_window'])}{shown}"
    if found["family"]:
        most = _said(found["draft_tokens"])
        yield f"  block            {_said(found['block_size'])}, K up to {most}"
        yield f"  target layers    {_said(found['target_layers'])} (their inputs)"
    if found["family"] == "dspark":
        yield f"  anchor drafts    {_said(found['sample_from_anchor'])} (sample_from_anchor)"
    ids = ", ".join(f"{name} {_said(tokens[name])}" for name in ("bos", "pad", "mask"))
    yield f"  token ids        {ids}, end {tokens['end']} (the last is end of turn)"
    for row in found["quantisation"]:
        types = ", ".join(f"{count} {name}" for name, count in row["types"].items())
        yield f"  {row['class']:<16} {row['bytes']:>14,} bytes: {types}"
    yield f"  read per token   {found['bytes_per_token']:,} bytes"


def _runs(pattern: list[bool]) -> str:
    sliding = [str(i) for i, is_sliding in enumerate(pattern) if is_sliding]
    return f"{', '.join(sliding) or 'none'} of {len(pattern)}"


def _said(value: Any) -> Any:
    return "—" if value is None else value
