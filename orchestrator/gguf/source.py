"""A GGUF against the Hugging Face checkpoint it was made from: metadata and sampled values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backends.base import Finding
from backends.errors import InputError
from orchestrator.gguf.contents import Contents, Tensor
from orchestrator.gguf.stored import SIZES, Stored, stored_tensors
from orchestrator.planning.drafter_shape import drafter_shape
from orchestrator.planning.headers import Headers, read_headers

ROWS = 16
"""Of every tensor, spread over it."""

TOLERANCES: Mapping[str, float] = {
    "F32": 1e-6,
    "BF16": 4e-3,
    "F16": 1e-3,
    "Q8_0": 0.01,
    "Q6_K": 0.03,
    "Q5_K": 0.06,
    "Q5_0": 0.07,
    "Q5_1": 0.07,
    "Q4_K": 0.12,
    "Q4_0": 0.15,
    "Q4_1": 0.13,
    "IQ4_NL": 0.13,
    "Q3_K": 0.25,
    "Q2_K": 0.45,
}
"""Root mean square error of sampled rows, as a share of their root mean square. About 1.5 times
what the quantiser does to trained weights; a wrong row or a wrong tensor gives 1 and more."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "token_embd": ("embed_tokens",),
    "output": ("lm_head",),
    "output_norm": ("norm",),
    "fc": ("fc", "encoder.fc"),
    "enc.output_norm": ("hidden_norm", "encoder.output_norm_enc"),
    "markov_w1": ("markov_head.markov_w1",),
    "markov_w2": ("markov_head.markov_w2",),
    "conf_proj": ("confidence_head.proj",),
}
LAYER_NAMES: Mapping[str, tuple[str, ...]] = {
    "attn_norm": ("input_layernorm",),
    "attn_q": ("self_attn.q_proj",),
    "attn_k": ("self_attn.k_proj",),
    "attn_v": ("self_attn.v_proj",),
    "attn_gate": ("self_attn.gate_proj",),
    "attn_output": ("self_attn.o_proj",),
    "attn_q_norm": ("self_attn.q_norm",),
    "attn_k_norm": ("self_attn.k_norm",),
    "post_attention_norm": ("post_attention_layernorm",),
    # A target has both, a drafter the second alone.
    "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm"),
    "post_ffw_norm": ("post_feedforward_layernorm",),
    "ffn_gate": ("mlp.gate_proj",),
    "ffn_up": ("mlp.up_proj",),
    "ffn_down": ("mlp.down_proj",),
}
KNOWN_PARTS = {part for parts in (*NAMES.values(), *LAYER_NAMES.values()) for part in parts}
PREFIXES = ("", "model.", "model.language_model.")


def against_source(contents: Contents, source: Path) -> Iterator[Finding]:
    """What differs from the checkpoint in `source`. Raises InputError where it cannot be read."""
    headers = read_headers(source)
    if headers.format != "hf":
        raise InputError("--source is a folder of Hugging Face files.", where=str(source))
    text = headers.config.get("text_config", headers.config)
    layer = text.get("transformer_layer_config", text) if isinstance(text, dict) else None
    types = layer.get("layer_types", []) if isinstance(layer, dict) else None
    if not isinstance(layer, dict) or not isinstance(types, list):
        raise InputError("describes no layers.", where=str(source / "config.json"))
    yield from _metadata(contents, headers, layer)
    yield from _tensors(contents, layer, stored_tensors(source))


def _metadata(contents: Contents, source: Headers, text: Mapping[str, Any]) -> Iterator[Finding]:
    for key, found, wanted in _pairs(contents, source, text):
        if found != wanted:
            yield _error(
                "source-metadata",
                f"{key} is {found}; the source says {wanted}.",
                "Convert the checkpoint anew.",
            )


def _pairs(
    contents: Contents, source: Headers, text: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for key, name in (
        ("block_count", "num_hidden_layers"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.sliding_window", "sliding_window"),
        ("attention.key_length", "head_dim"),
        ("context_length", "max_position_embeddings"),
    ):
        if name in text:
            yield key, contents.get(key), text[name]
    rope = text.get("rope_parameters")
    for key, wanted in (
        ("attention.layer_norm_rms_epsilon", text.get("rms_norm_eps")),
        ("rope.freq_base", rope.get("rope_theta") if isinstance(rope, dict) else None),
    ):
        if wanted is not None:
            yield key, contents.get(key), _single(wanted)
    if (types := text.get("layer_types")) is not None:
        sliding = [name == "sliding_attention" for name in types]
        yield "the sliding pattern", contents.get("attention.sliding_window_pattern"), sliding
    if contents.family is None:
        for key, name in (
            ("final_logit_softcapping", "final_logit_softcapping"),
            ("logit_scale", "output_multiplier"),
        ):
            yield key, contents.get(key), _single(text.get(name))
        return
    shape = drafter_shape(source)
    ids = shape.layer_ids
    if ids is not None:
        shift = 1 if shape.convention == "outputs" else 0
        yield "target_layers", contents.get("target_layers"), [i + shift for i in ids]
    yield "block_size", contents.get("block_size"), shape.block_size
    yield "the mask token", contents.token_id("mask"), shape.mask_token_id
    if shape.sample_from_anchor is not None:
        yield "sample_from_anchor", contents.get("sample_from_anchor"), shape.sample_from_anchor
    yield "the family", contents.family, shape.family


def _single(value: Any) -> Any:
    """As a GGUF holds it: in single precision."""
    return float(np.float32(value)) if isinstance(value, int | float) else value


def _tensors(
    contents: Contents, text: Mapping[str, Any], stored: Mapping[str, Stored]
) -> Iterator[Finding]:
    wrong = [f"{name} of the source is not in it" for name in _left_out(contents, stored)]
    for tensor in contents.tensors.values():
        limit = TOLERANCES.get(tensor.type)
        name = source_name(tensor.name, stored)
        if limit is None or not _options(tensor.name):
            yield Finding("info", "source-values", f"{tensor.name} ({tensor.type}): not compared.")
        elif name is None:
            constant = _made(contents, tensor.name, text)
            if constant is None:
                wrong.append(f"{tensor.name} is not in the source")
            elif not np.allclose(contents.rows(tensor.name, [0]), constant, rtol=1e-3):
                wrong.append(f"{tensor.name} is not {constant}")
        elif stored[name].dtype not in SIZES:
            said = f"{name} is {stored[name].dtype} in the source: not compared."
            yield Finding("info", "source-values", said)
        elif stored[name].shape != tensor.shape:
            shapes = f"{list(tensor.shape)}, in the source {list(stored[name].shape)}"
            wrong.append(f"{tensor.name} is {shapes}")
        elif not (error := _error_of(contents, tensor, name, stored[name])) <= limit:
            wrong.append(
                f"{tensor.name} ({tensor.type}) is {error:.2g} off {name}, relative to its size, "
                f"where {limit:.2g} is the most that storing it so costs"
            )
    if wrong:
        yield _error(
            "source-values",
            f"{len(wrong)} of {len(contents.tensors)} tensors are not the source's: {wrong[0]}.",
            "The source is another checkpoint, or the file is damaged.",
        )


def _left_out(contents: Contents, stored: Mapping[str, Stored]) -> list[str]:
    """What the file should have of its source. A drafter shares embeddings and head."""
    taken = {source_name(name, stored) for name in contents.tensors}
    shared = ("embed_tokens", "lm_head") if contents.family else ()
    return [
        name
        for name in sorted(stored.keys() - taken)
        if (part := _part(name)) in KNOWN_PARTS and part not in shared
    ]


def _part(name: str) -> str:
    """What `LAYER_NAMES` or `NAMES` calls a tensor of a checkpoint."""
    for prefix in reversed(PREFIXES):
        name = name.removeprefix(prefix)
    return re.sub(r"^layers\.\d+\.", "", name).rpartition(".")[0]


def _error_of(contents: Contents, tensor: Tensor, name: str, origin: Stored) -> float:
    """Root mean square error of sampled rows, relative to the root mean square of the source."""
    count = tensor.shape[0] if len(tensor.shape) > 1 else 1
    numbers = np.unique(np.linspace(0, count - 1, ROWS).astype(int)).tolist()
    wanted = origin.rows([_source_row(contents, tensor.name, n, count) for n in numbers])
    if contents.family is None and name.endswith("layernorm.weight"):
        wanted = wanted + 1  # the target's layers store what is added to 1
    found = contents.rows(tensor.name, numbers)
    with np.errstate(all="ignore"):  # damaged numbers make an error that is no number
        size = float(np.sqrt(np.mean(np.square(wanted))))
        error = float(np.sqrt(np.mean(np.square(found - wanted))))
    return error / size if size else error


def _made(contents: Contents, name: str, text: Mapping[str, Any]) -> float | None:
    """The target's q and k norms are made by the converter: the scale, and ones."""
    part = re.sub(r"^blk\.\d+\.|\.weight$", "", name)
    constants = {"attn_q_norm": text.get("qk_scale_factor"), "attn_k_norm": 1.0}
    return constants.get(part) if contents.family is None else None


def source_name(name: str, stored: Mapping[str, Stored]) -> str | None:
    """What the checkpoint calls a tensor of the GGUF; None where it has none."""
    suffix = name.rpartition(".")[2]
    for option in _options(name):
        for prefix in PREFIXES:
            if (full := f"{prefix}{option}.{suffix}") in stored:
                return full
    return None


def _options(name: str) -> tuple[str, ...]:
    stem = name.rpartition(".")[0]
    if match := re.fullmatch(r"blk\.(\d+)\.(.+)", stem):
        return tuple(f"layers.{match[1]}.{part}" for part in LAYER_NAMES.get(match[2], ()))
    return NAMES.get(stem, ())


def _source_row(contents: Contents, name: str, row: int, rows: int) -> int:
    """The target's q and k rows are interleaved pairs in llama.cpp, and halves in transformers."""
    if contents.family is not None or not re.search(r"\.attn_[qk]\.", name):
        return row
    key = "attention.head_count" if ".attn_q." in name else "attention.head_count_kv"
    width = rows // int(contents.get(key))
    head, inside = divmod(row, width)
    return head * width + inside % 2 * (width // 2) + inside // 2


def _error(code: str, text: str, fix: str | None) -> Finding:
    return Finding("error", code, text, fix)
