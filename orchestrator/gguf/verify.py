"""Is a GGUF file what it should be: by itself, beside its target, and beside its source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from backends.base import Finding
from backends.errors import InputError
from orchestrator.convert import manifest
from orchestrator.gguf.contents import (
    DRAFTER_ARCHITECTURE,
    TARGET_ARCHITECTURE,
    Contents,
    read,
    vocabulary,
)
from orchestrator.gguf.known import KNOWN
from orchestrator.gguf.source import against_source
from orchestrator.planning.drafter_shape import target_shape
from orchestrator.planning.headers import read_headers
from orchestrator.planning.lint import lint

TARGET_PARTS = ("attn_q", "attn_k", "attn_v", "attn_gate", "attn_output")
FFN_PARTS = ("ffn_gate", "ffn_up", "ffn_down")


def verify(
    path: Path, *, source: Path | None = None, target: Path | None = None
) -> tuple[Finding, ...]:
    """Everything found, errors first. `source`: its checkpoint. `target`: in either format.

    Raises InputError where a header cannot be read.
    """
    contents = read(path)
    found = [*_by_itself(contents)]
    if not any(finding.code in ("architecture", "truncated") for finding in found):
        found += _as_recorded(contents)
        if target is not None:
            found += _beside_target(contents, target)
        if source is not None:
            found += against_source(contents, source)
            if contents.family is None:
                found += _tokenizers(contents, source, False, ("the file", "the source"))
    order = ("error", "warning", "info")
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


def _by_itself(contents: Contents) -> Iterator[Finding]:
    if contents.architecture not in (TARGET_ARCHITECTURE, DRAFTER_ARCHITECTURE):
        yield _error(
            "architecture",
            f"The architecture is {contents.architecture}; museorch knows {TARGET_ARCHITECTURE} "
            f"and, for both families of drafters, {DRAFTER_ARCHITECTURE}.",
            "Use a GGUF of Muse Glimmer or of one of its drafters.",
        )
        return
    if contents.bytes < contents.needed_bytes:
        yield _error(
            "truncated",
            f"The file has {contents.bytes:,} bytes; its last tensor ends at "
            f"{contents.needed_bytes:,}.",
            "Fetch or convert it again.",
        )
        return
    if known := KNOWN.get(contents.bytes):
        text = f"By its size this is {known.new_name}, before: {known.old_name}."
        yield Finding("info", "published", f"{text} Its published hash is not known.")
    if contents.family is None:
        yield from _target_tensors(contents)
    else:
        yield from _markov(contents)


def _as_recorded(contents: Contents) -> Iterator[Finding]:
    """Beside a manifest of `museorch convert`: is every byte as it was made?"""
    made = manifest.read(contents.path)
    if made is not None and made.get("sha256") != manifest.sha256(contents.path):
        yield _error(
            "manifest",
            f"It is not the file that {manifest.path_of(contents.path).name} describes: the "
            "sha256 differs.",
            "Fetch or convert it again.",
        )


def _target_tensors(contents: Contents) -> Iterator[Finding]:
    layers = contents.get("block_count") or 0
    wanted = ["token_embd.weight", "output_norm.weight"]
    wanted += [f"blk.{i}.{part}.weight" for i in range(layers) for part in TARGET_PARTS + FFN_PARTS]
    missing = [name for name in wanted if name not in contents.tensors]
    if missing:
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        yield _error(
            "tensors",
            f"Tensors are missing: {', '.join(missing[:4])}{more}.",
            "Fetch or convert it again.",
        )
    table = contents.tensors.get("token_embd.weight")
    if table is not None and table.shape[0] != contents.headers.tokens:
        yield _vocabulary(contents, table.name, table.shape[0])


def _markov(contents: Contents) -> Iterator[Finding]:
    """A DSpark drafter says whether its anchor drafts; a DFlash drafter has no such key."""
    pair = [f"markov_w{i}.weight" for i in (1, 2)]
    missing = [name for name in pair if name not in contents.tensors]
    says = contents.get("sample_from_anchor") is not None
    if missing and (says or len(missing) == 1):
        yield _error(
            "markov",
            f"It says that it is a DSpark drafter, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing.",
            "Fetch or convert it again.",
        )
    reduced = any(name.startswith("d2t") for name in contents.tensors)
    for name in pair[:1] if reduced else pair:  # the second draws from the drafter's own vocabulary
        tensor = contents.tensors.get(name)
        if tensor is not None and tensor.shape[0] != contents.headers.tokens:
            yield _vocabulary(contents, name, tensor.shape[0])


def _vocabulary(contents: Contents, name: str, rows: int) -> Finding:
    return _error(
        "vocabulary",
        f"{name} is for {rows} tokens; the vocabulary has {contents.headers.tokens}.",
        "Fetch or convert it again.",
    )


def _beside_target(contents: Contents, target: Path) -> Iterator[Finding]:
    if contents.family is None:
        yield _error("role", "This is a target; --target is for drafters.", None)
        return
    headers = read_headers(target)
    target_shape(headers)
    architecture = headers.config.get("general.architecture")
    if headers.format == "gguf" and architecture != TARGET_ARCHITECTURE:
        yield _error(
            "target-architecture",
            f"The target is {architecture}, not {TARGET_ARCHITECTURE}.",
            "Name the target of this drafter.",
        )
        return
    yield from lint(contents.path, target)
    yield from _tokenizers(contents, target, headers.format == "gguf")


def _tokenizers(
    contents: Contents,
    target: Path,
    is_gguf: bool,
    places: tuple[str, str] = ("the drafter", "the target"),
) -> Iterator[Finding]:
    own = vocabulary(contents.path)
    other: Iterable[str | None] | None
    other = vocabulary(target) if is_gguf else _hf_vocabulary(target)
    if other is None:
        yield Finding("info", "tokenizer", f"No tokenizer.json in {places[1]}: not compared.")
        return
    for number, (left, right) in enumerate(zip_longest(own, other, fillvalue="none")):
        if right is not None and left != right:
            yield _error(
                "tokenizer",
                f"Token {number} is {left!r} in {places[0]} and {right!r} in {places[1]}.",
                f"Convert it with {places[1]}'s tokenizer.",
            )
            break
    if not is_gguf:
        return
    theirs = read(target)
    for name in ("bos", "eos", "eot", "padding"):
        left_id, right_id = contents.token_id(name), theirs.token_id(name)
        if left_id != right_id:
            yield _error(
                "tokenizer",
                f"The {name} token is {left_id} in the drafter and {right_id} in the target.",
                "Convert the drafter with this target.",
            )


def _hf_vocabulary(folder: Path) -> Iterable[str | None] | None:
    """Tokens by id, as the converter writes them: an id without a token gets a name of its own.

    None in place of an added token, whose text the converter may change.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        tokens = {number: token for token, number in found["model"]["vocab"].items()}
        added = {entry["id"] for entry in found.get("added_tokens", ())}
        highest = max(tokens.keys() | added)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError("is no tokenizer that museorch can read.", where=str(path)) from None
    size = target_shape(read_headers(folder)).vocab_size
    count = size if size is not None else highest + 1
    return (None if i in added else tokens.get(i, f"[PAD{i}]") for i in range(count))


def _error(code: str, text: str, fix: str | None) -> Finding:
    return Finding("error", code, text, fix)
