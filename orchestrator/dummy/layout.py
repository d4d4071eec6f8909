"""What a GGUF of a model's shape holds: metadata keys and tensors, as llama.cpp's converter has it.

Only norms hold meant values. Names and keys are those that llama.cpp's `muse-glimmer.cpp` and
`dflash.cpp` read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.dummy.place import Role, shape
from orchestrator.gguf.contents import DRAFTER_ARCHITECTURE, TARGET_ARCHITECTURE
from orchestrator.inputs.models import DrafterSpec, LoadedModel

NORMAL, CONTROL = 1, 3
"""Of llama.cpp's token types."""


@dataclass(frozen=True)
class Planned:
    name: str
    shape: tuple[int, ...]
    """Outermost first."""
    fill: float | None = None
    """The one value of a norm; None for random values."""


@dataclass(frozen=True)
class Layout:
    architecture: str
    layers: int
    keys: Mapping[str, Any]
    """int, float, bool, str, or a list of one of them."""
    tensors: tuple[Planned, ...]


def layout(model: LoadedModel, role: Role) -> Layout:
    config = shape(model, role)
    if role == "target":
        text, architecture = config["text_config"], TARGET_ARCHITECTURE
        keys, tensors = _target_keys(text), _target_tensors(text)
    else:
        text, architecture = config, DRAFTER_ARCHITECTURE
        spec = model.model.drafters[role]
        keys = _drafter_keys(spec, role, config)
        wide = shape(model, "target")["text_config"]["hidden_size"] * len(spec.target_layer_ids)
        tensors = _drafter_tensors(config, wide, model.model.vocab_size)
    named = {f"{architecture}.{key}": value for key, value in (_common_keys(text) | keys).items()}
    return Layout(
        architecture,
        text["num_hidden_layers"],
        named | _vocabulary(model, role),
        tuple(tensors),
    )


def _common_keys(text: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "block_count": text["num_hidden_layers"],
        "context_length": text["max_position_embeddings"],
        "embedding_length": text["hidden_size"],
        "feed_forward_length": text["intermediate_size"],
        "attention.head_count": text["num_attention_heads"],
        "attention.head_count_kv": text["num_key_value_heads"],
        "rope.freq_base": float(text["rope_parameters"]["rope_theta"]),
        "attention.layer_norm_rms_epsilon": float(text["rms_norm_eps"]),
        "attention.key_length": text["head_dim"],
        "attention.value_length": text["head_dim"],
        "attention.sliding_window": text["sliding_window"],
        "attention.sliding_window_pattern": [
            kind == "sliding_attention" for kind in text["layer_types"]
        ],
    }


def _target_keys(text: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "final_logit_softcapping": float(text["final_logit_softcapping"]),
        "logit_scale": float(text["output_multiplier"]),
    }


def _drafter_keys(spec: DrafterSpec, role: Role, config: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "block_size": spec.block_size,
        # A GGUF counts the inputs of the next layers, the model file outputs.
        "target_layers": [number + 1 for number in spec.target_layer_ids],
    }
    if role == "dspark":
        keys |= {
            "attention.causal": False,
            "sample_from_anchor": bool(spec.sample_from_anchor),
            "has_confidence_head": bool(config["enable_confidence_head"]),
        }
    return keys


def _vocabulary(model: LoadedModel, role: Role) -> dict[str, Any]:
    """Tokens `<0>`, `<1>`, ...: prompts are sent as ids, so their text plays no part.

    A drafter without its mask token would be fed the id -1.
    """
    tokens, size = model.model.tokens, model.model.vocab_size
    special = {tokens.bos, *tokens.end, tokens.pad, tokens.mask}
    keys: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [f"<{number}>" for number in range(size)],
        "tokenizer.ggml.token_type": [CONTROL if n in special else NORMAL for n in range(size)],
        "tokenizer.ggml.merges": ["< >"],
        "tokenizer.ggml.bos_token_id": tokens.bos,
        "tokenizer.ggml.eos_token_id": tokens.end[0],
        "tokenizer.ggml.eot_token_id": tokens.end[-1],
        "tokenizer.ggml.padding_token_id": tokens.pad,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_sep_token": False,
    }
    return keys if role == "target" else {**keys, "tokenizer.ggml.mask_token_id": tokens.mask}


def _target_tensors(text: Mapping[str, Any]) -> Iterator[Planned]:
    hidden, vocabulary = text["hidden_size"], text["vocab_size"]
    yield Planned("output.weight", (vocabulary, hidden))
    yield Planned("token_embd.weight", (vocabulary, hidden))
    for layer in range(text["num_hidden_layers"]):
        yield from _layer(text, layer, float(text["qk_scale_factor"]))
        yield Planned(f"blk.{layer}.post_attention_norm.weight", (hidden,), 1.0)
        yield Planned(f"blk.{layer}.post_ffw_norm.weight", (hidden,), 1.0)
        wide = text["num_attention_heads"] * text["head_dim"]
        yield Planned(f"blk.{layer}.attn_gate.weight", (wide, hidden))
    yield Planned("output_norm.weight", (hidden,), 1.0)


def _drafter_tensors(config: Mapping[str, Any], read: int, vocabulary: int) -> Iterator[Planned]:
    """`read`: width of the target's features. Embeddings and output head are the target's."""
    hidden = config["hidden_size"]
    yield Planned("fc.weight", (hidden, read))
    yield Planned("enc.output_norm.weight", (hidden,), 1.0)
    for layer in range(config["num_hidden_layers"]):
        yield from _layer(config, layer, 1.0)
    if "markov_rank" in config:
        yield Planned("markov_w1.weight", (vocabulary, config["markov_rank"]))
        yield Planned("markov_w2.weight", (vocabulary, config["markov_rank"]))
    yield Planned("output_norm.weight", (hidden,), 1.0)


def _layer(text: Mapping[str, Any], number: int, query_norm: float) -> Iterator[Planned]:
    hidden, ffn, head = text["hidden_size"], text["intermediate_size"], text["head_dim"]
    queries, keys = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    at = f"blk.{number}."
    yield Planned(f"{at}attn_norm.weight", (hidden,), 1.0)
    yield Planned(f"{at}ffn_down.weight", (hidden, ffn))
    yield Planned(f"{at}ffn_gate.weight", (ffn, hidden))
    yield Planned(f"{at}ffn_up.weight", (ffn, hidden))
    yield Planned(f"{at}ffn_norm.weight", (hidden,), 1.0)
    yield Planned(f"{at}attn_k.weight", (keys, hidden))
    yield Planned(f"{at}attn_output.weight", (hidden, queries))
    yield Planned(f"{at}attn_q_norm.weight", (head,), query_norm)
    yield Planned(f"{at}attn_k_norm.weight", (head,), 1.0)
    yield Planned(f"{at}attn_q.weight", (queries, hidden))
    yield Planned(f"{at}attn_v.weight", (keys, hidden))
