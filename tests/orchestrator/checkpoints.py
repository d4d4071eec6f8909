"""Checkpoints with real headers and no weights, in the shapes of Muse Glimmer's drafters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Tensors = dict[str, tuple[int, ...]]

HIDDEN, LAYERS, VOCAB, FFN, RANK = 64, 6, 128, 96, 8
SMALL_IDS = [0, 2, 4]


def write_hf(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]]
) -> Path:
    """A folder with config.json and a safetensors file that ends after its header."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header = {
        name: {"dtype": "BF16", "shape": list(shape), "data_offsets": [0, 0]}
        for name, shape in tensors.items()
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    return folder


def target(folder: Path, hidden: int = HIDDEN, layers: int = LAYERS, vocab: int = VOCAB) -> Path:
    text = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": vocab,
        "sliding_window": 32,
    }
    config = {"architectures": ["MuseGlimmerForConditionalGeneration"], "text_config": text}
    return write_hf(folder, config, {"lm_head.weight": (vocab, hidden)})


def backbone(hidden: int = HIDDEN, features: int = 3) -> Tensors:
    tensors: Tensors = {"norm.weight": (hidden,)}
    for i in range(2):
        for name in ("q", "k", "v", "o"):
            tensors[f"layers.{i}.self_attn.{name}_proj.weight"] = (hidden, hidden)
        for name in ("gate", "up", "down"):
            tensors[f"layers.{i}.mlp.{name}_proj.weight"] = (FFN, hidden)
    tensors["fc.weight"] = (hidden, features * hidden)
    tensors["hidden_norm.weight"] = (hidden,)
    return tensors


def dflash_config(**changes: Any) -> dict[str, Any]:
    return {
        "architectures": ["MuseGlimmerAssistantModel"],
        "model_type": "muse_glimmer_assistant",
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention"] * 2,
        "sliding_window": 32,
        "block_size": 16,
        "mask_token_id": 4,
        "target_layer_ids": SMALL_IDS,
        "vocab_size": VOCAB,
        **changes,
    }


def dspark_config(**changes: Any) -> dict[str, Any]:
    return {
        **dflash_config(),
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "use_sliding_window": True,
        "markov_rank": RANK,
        "sample_from_anchor": False,
        "enable_confidence_head": False,
        **changes,
    }


def dspark_tensors() -> Tensors:
    return {
        **backbone(),
        "markov_head.markov_w1.weight": (VOCAB, RANK),
        "markov_head.markov_w2.weight": (VOCAB, RANK),
    }


def write_gguf(path: Path, *, markov: bool, layer_ids: list[int], vocab: int = VOCAB) -> Path:
    """A drafter as llama.cpp's converter writes it."""
    writer = gguf.GGUFWriter(path, "dflash")
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(2)
    writer.add_uint32("dflash.block_size", 16)
    writer.add_array("dflash.target_layers", layer_ids)
    writer.add_sliding_window(32)
    writer.add_array("dflash.attention.sliding_window_pattern", [True, True])
    writer.add_token_list([f"token {i}" for i in range(vocab)])
    writer.add_mask_token_id(4)
    shapes: Tensors = {
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "enc.output_norm.weight": (HIDDEN,),
        "output_norm.weight": (HIDDEN,),
    }
    for i in range(2):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes[f"blk.{i}.{part}.weight"] = (HIDDEN, HIDDEN)
        for part in ("ffn_gate", "ffn_up", "ffn_down"):
            shapes[f"blk.{i}.{part}.weight"] = (FFN, HIDDEN)
    if markov:
        shapes["markov_w1.weight"] = shapes["markov_w2.weight"] = (vocab, RANK)
        writer.add_bool("dflash.sample_from_anchor", False)
        writer.add_bool("dflash.has_confidence_head", False)
    for name, shape in shapes.items():
        writer.add_tensor(name, np.zeros(shape, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
