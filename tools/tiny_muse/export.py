"""Write the three Hugging Face checkpoints.

    python -m tools.tiny_muse.export --weights OUT --tokenizer BUILD/tokenizer.json --out MODEL

The drafters are written as the published ones are: the DFlash drafter with `target_layer_ids` at
top level and no `vocab_size`, the DSpark drafter as a `Qwen3DSparkModel`. The vision tower has
random weights; it is there because loaders build it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from . import model as shape
from .framing import BOS, EOS, EOT, MASK, PAD, SPECIAL_TOKENS, TEMPLATE_PATH, TOKEN_ID, VOCAB_SIZE

MAX_POSITIONS = 4096
TRANSFORMERS_VERSION = "5.17.0"
VISION_HIDDEN, VISION_ADAPTER, VISION_PATCH, VISION_GRID = 16, 16, 14, 4


def _rope() -> dict[str, Any]:
    return {"rope_theta": shape.ROPE_THETA, "rope_type": "default"}


def target_config() -> dict[str, Any]:
    layer_types = ["sliding_attention"] * (shape.TARGET_LAYERS - 1) + ["full_attention"]
    text = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": BOS,
        "dtype": "bfloat16",
        "eos_token_id": EOS,
        "final_logit_softcapping": shape.SOFTCAP,
        "head_dim": shape.HEAD_DIM,
        "hidden_activation": "silu",
        "hidden_size": shape.HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": shape.TARGET_FFN,
        "layer_rope_theta": [shape.ROPE_THETA] * (shape.TARGET_LAYERS - 1) + [0],
        "layer_types": layer_types,
        "max_position_embeddings": MAX_POSITIONS,
        "model_type": "muse_glimmer_text",
        "num_attention_heads": shape.HEADS,
        "num_hidden_layers": shape.TARGET_LAYERS,
        "num_key_value_heads": shape.KV_HEADS,
        "output_multiplier": (shape.HIDDEN / 256) ** -0.5,
        "pad_token_id": PAD,
        "post_norm_eps": shape.POST_EPS,
        "qk_scale_factor": shape.QK_SCALE,
        "rms_norm_eps": shape.EPS,
        "rope_parameters": _rope(),
        "sliding_window": shape.WINDOW,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": VOCAB_SIZE,
    }
    vision = {
        # vLLM reads adapter_dim and output_dim (4 x hidden); transformers keeps them outside.
        "adapter_dim": VISION_ADAPTER,
        "hidden_act": "gelu",
        "hidden_size": VISION_HIDDEN,
        "intermediate_size": 2 * VISION_HIDDEN,
        "layer_norm_eps": 1e-5,
        "layer_types": ["full_attention"],
        "max_position_embeddings": VISION_GRID**2,
        "merge_size": 2,
        "model_type": "muse_glimmer_vision",
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "output_dim": 4 * VISION_HIDDEN,
        "patch_size": VISION_PATCH,
        "patch_temporal": 2,
        "pos_emb_height": VISION_GRID,
        "pos_emb_width": VISION_GRID,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"},
    }
    return {
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "dtype": "bfloat16",
        "image_token_id": TOKEN_ID["<|patch|>"],
        "model_type": "muse_glimmer",
        "out_hidden_size": 4 * VISION_HIDDEN,
        "projector_hidden_act": "gelu",
        "projector_hidden_size": VISION_ADAPTER,
        "text_config": text,
        "transformers_version": TRANSFORMERS_VERSION,
        "video_token_id": TOKEN_ID["<|video|>"],
        "vision_config": vision,
    }


def _drafter_base() -> dict[str, Any]:
    return {
        "bos_token_id": BOS,
        "block_size": shape.BLOCK,
        "eos_token_id": EOS,
        "head_dim": shape.HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": shape.HIDDEN,
        "intermediate_size": shape.DRAFT_FFN,
        "layer_types": ["sliding_attention"] * shape.DRAFT_LAYERS,
        "mask_token_id": MASK,
        "max_position_embeddings": MAX_POSITIONS,
        "num_attention_heads": shape.HEADS,
        "num_hidden_layers": shape.DRAFT_LAYERS,
        "num_key_value_heads": shape.KV_HEADS,
        "pad_token_id": PAD,
        "rms_norm_eps": shape.EPS,
        "rope_parameters": _rope(),
        "sliding_window": shape.WINDOW,
        "target_layer_ids": list(shape.TARGET_LAYER_IDS),
    }


def dflash_config() -> dict[str, Any]:
    return {
        "architectures": ["MuseGlimmerAssistantModel"],
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
        "model_type": "muse_glimmer_assistant",
        "transformers_version": TRANSFORMERS_VERSION,
        **_drafter_base(),
    }


def dspark_config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3DSparkModel"],
        "dflash_config": {
            "causal": False,
            "mask_token_id": MASK,
            "target_layer_ids": list(shape.TARGET_LAYER_IDS),
        },
        "enable_confidence_head": False,
        "markov_head_type": "vanilla",
        "markov_rank": shape.MARKOV_RANK,
        "max_window_layers": 0,
        "model_type": "qwen3",
        "num_target_layers": shape.TARGET_LAYERS,
        "rope_theta": shape.ROPE_THETA,
        "sample_from_anchor": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_sliding_window": True,
        "vocab_size": VOCAB_SIZE,
        **_drafter_base(),
    }


def target_tensors(state: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {"lm_head.weight": state["lm_head"]}
    prefix = "model.language_model."
    for name, tensor in state.items():
        if name == "embed_tokens":
            tensors[f"{prefix}embed_tokens.weight"] = tensor
        elif name != "lm_head":
            tensors[prefix + name] = tensor
    return tensors | _vision_tensors()


def _vision_tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    width, ffn, adapter = VISION_HIDDEN, 2 * VISION_HIDDEN, VISION_ADAPTER
    patch = 3 * 2 * VISION_PATCH**2
    shapes: dict[str, tuple[int, ...]] = {
        "model.vision_adapter.fc1.weight": (adapter, 4 * width),
        "model.vision_adapter.fc2.weight": (adapter, adapter),
        "model.vision_projection.weight": (shape.HIDDEN, adapter),
        "model.vision_tower.patch_embedder.patch_embedding.weight": (width, patch),
        "model.vision_tower.patch_embedder.position_embedding_table.weight": (
            VISION_GRID**2,
            width,
        ),
    }
    tower = "model.vision_tower.layers.0."
    for name in ("q_proj", "k_proj", "v_proj", "proj"):
        shapes[f"{tower}attn.{name}.weight"] = (width, width)
        shapes[f"{tower}attn.{name}.bias"] = (width,)
    shapes |= {
        f"{tower}mlp.fc1.weight": (ffn, width), f"{tower}mlp.fc1.bias": (ffn,),
        f"{tower}mlp.fc2.weight": (width, ffn), f"{tower}mlp.fc2.bias": (width,),
    }  # fmt: skip
    tensors = {k: torch.randn(v, generator=generator) * 0.02 for k, v in shapes.items()}
    for norm in (
        f"{tower}norm1",
        f"{tower}norm2",
        "model.vision_tower.ln_pre",
        "model.vision_tower.ln_post",
    ):
        tensors[f"{norm}.weight"] = torch.ones(width)
        tensors[f"{norm}.bias"] = torch.zeros(width)
    return tensors


def drafter_tensors(state: dict[str, Tensor], *, dspark: bool) -> dict[str, Tensor]:
    """The two families name the context projection and the Markov head differently."""
    names = {
        "markov_w1": "markov_head.markov_w1.weight",
        "markov_w2": "markov_head.markov_w2.weight",
    }
    if not dspark:
        names = {
            "fc.weight": "encoder.fc.weight",
            "hidden_norm.weight": "encoder.output_norm_enc.weight",
        }
    return {names.get(name, name): tensor for name, tensor in state.items()}


def _save(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    rounded = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    save_file(rounded, folder / "model.safetensors", metadata={"format": "pt"})


def save_tokenizer(folder: Path, tokenizer: Path) -> None:
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    shutil.copyfile(TEMPLATE_PATH, folder / "chat_template.jinja")
    config = {
        "add_bos_token": True,
        "backend": "tokenizers",
        "bos_token": SPECIAL_TOKENS[BOS],
        "clean_up_tokenization_spaces": False,
        "eos_token": SPECIAL_TOKENS[EOS],
        "model_max_length": MAX_POSITIONS,
        "pad_token": SPECIAL_TOKENS[PAD],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    generation = {
        "bos_token_id": BOS,
        "do_sample": True,
        "eos_token_id": [EOS, EOT],
        "pad_token_id": PAD,
        "temperature": 1.0,
        "top_k": 64,
        "top_p": 0.95,
        "transformers_version": TRANSFORMERS_VERSION,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--weights", type=Path, required=True, help="folder of target.pt, dflash.pt, dspark.pt"
    )
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    def state(name: str) -> dict[str, Tensor]:
        loaded: dict[str, Tensor] = torch.load(
            options.weights / f"{name}.pt", map_location="cpu", weights_only=True
        )
        return loaded

    _save(options.out / "target", target_config(), target_tensors(state("target")))
    save_tokenizer(options.out / "target", options.tokenizer)
    _save(options.out / "dflash", dflash_config(), drafter_tensors(state("dflash"), dspark=False))
    _save(options.out / "dspark", dspark_config(), drafter_tensors(state("dspark"), dspark=True))


if __name__ == "__main__":
    main()
