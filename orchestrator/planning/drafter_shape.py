"""What a drafter's and a target's headers say, in one set of names for every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from backends.errors import InputError
from orchestrator.planning.headers import Headers, Shape

Convention = Literal["outputs", "inputs"]
Family = Literal["dflash", "dspark", "dflash2"]

FAMILIES: Mapping[str, Family] = {
    "MuseGlimmerAssistantModel": "dflash",
    "DFlashDraftModel": "dflash",
    "DFlash2DraftModel": "dflash2",
    "Qwen3DSparkModel": "dspark",
    "DSparkDraftModel": "dspark",
    "DSparkSpeculator": "dspark",
}


@dataclass(frozen=True)
class TargetShape:
    vocab_size: int | None
    hidden_size: int
    layers: int
    sliding_window: int | None


@dataclass(frozen=True)
class DrafterShape:
    """None is `not said`."""

    format: Literal["hf", "speculators", "gguf"]
    architecture: str | None
    declared: Family | None
    """By its architecture; None for an unknown one and for GGUF, which has one for all."""
    vocab_size: int | None
    draft_vocab_size: int | None
    hidden_size: int | None
    layers: int | None
    sliding_layers: int
    sliding_window: int | None
    window_dropped: bool
    """A Qwen3 config class drops the window unless use_sliding_window is set."""
    block_size: int | None
    mask_token_id: int | None
    layer_ids: tuple[int, ...] | None
    convention: Convention
    """How the format counts them: outputs of target layers, or inputs of the next ones."""
    nested_layer_ids: tuple[int, ...] | None
    """dflash_config.target_layer_ids, where top-level ones exist too."""
    sample_from_anchor: bool | None
    markov_rank: int | None
    confidence_declared: bool | None
    logit_keys: tuple[str, ...]
    """Keys that scale or cap its logits."""
    tensors: Mapping[str, Shape]

    @property
    def has_markov(self) -> bool:
        return any("markov_w1" in name for name in self.tensors)

    @property
    def has_confidence(self) -> bool:
        return any("confidence_head" in name or "conf_proj" in name for name in self.tensors)

    @property
    def family(self) -> Family:
        """By its tensors, which cannot be wrong about what was trained."""
        if any("selector" in name for name in self.tensors):
            return "dflash2"
        return "dspark" if self.has_markov else "dflash"

    def tensor(self, *names: str) -> Shape | None:
        """The first of these that is there; a `model.` before it makes no difference."""
        for name in names:
            for full in (name, f"model.{name}"):
                if full in self.tensors:
                    return self.tensors[full]
        return None


def target_shape(headers: Headers) -> TargetShape:
    """Raises InputError where the size of the model is not said."""
    config = headers.config
    try:
        if headers.format == "gguf":
            prefix = config["general.architecture"]
            found = TargetShape(
                headers.tokens,
                config[f"{prefix}.embedding_length"],
                config[f"{prefix}.block_count"],
                config.get(f"{prefix}.attention.sliding_window"),
            )
        else:
            text = _object(headers, config.get("text_config", config))
            found = TargetShape(
                text.get("vocab_size"),
                text["hidden_size"],
                text["num_hidden_layers"],
                text.get("sliding_window"),
            )
    except KeyError as error:
        raise InputError(f"does not say {error.args[0]}.", where=str(headers.path)) from None
    for name in ("hidden_size", "layers"):
        if getattr(found, name) is None:
            raise InputError(f"does not say its {name}.", where=str(headers.path))
    _check(headers, found, "vocab_size", "hidden_size", "layers", "sliding_window")
    return found


def drafter_shape(headers: Headers) -> DrafterShape:
    """Raises InputError where a number is none."""
    found = _gguf(headers) if headers.format == "gguf" else _hf(headers)
    whole = (
        *("vocab_size", "draft_vocab_size", "hidden_size", "layers", "sliding_window"),
        *("block_size", "mask_token_id", "markov_rank"),
    )
    _check(headers, found, *whole)
    for number in (*(found.layer_ids or ()), *(found.nested_layer_ids or ())):
        if not isinstance(number, int):
            raise InputError(f"a target layer cannot be {number!r}.", where=str(headers.path))
    if (found.layers or 0) > len(headers.tensors):
        what = f"it says that it has {found.layers} layers, and has {len(headers.tensors)} tensors."
        raise InputError(what, where=str(headers.path))
    return found


def _check(headers: Headers, shape: TargetShape | DrafterShape, *names: str) -> None:
    for name in names:
        if not isinstance(value := getattr(shape, name), int | None):
            raise InputError(f"its {name} cannot be {value!r}.", where=str(headers.path))


def _object(headers: Headers, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{value!r} stands in place of settings.", where=str(headers.path))
    return value


def _hf(headers: Headers) -> DrafterShape:
    config = headers.config
    speculators = "speculators_model_type" in config or "transformer_layer_config" in config
    layer = _object(headers, config.get("transformer_layer_config", config))
    nested = _object(headers, config.get("dflash_config") or {})
    names = config.get("architectures")
    architecture = str(names[0]) if isinstance(names, list) and names else None
    if speculators:
        ids, convention = config.get("aux_hidden_state_layer_ids"), "inputs"
    else:
        ids, convention = config.get("target_layer_ids"), "outputs"
    inner = nested.get("target_layer_ids")
    types = layer.get("layer_types")
    window_used = layer.get("use_sliding_window", layer.get("model_type") != "qwen3")
    mask = config.get("mask_token_id")
    anchor = config.get("sample_from_anchor", nested.get("sample_from_anchor"))
    return DrafterShape(
        format="speculators" if speculators else "hf",
        architecture=architecture,
        declared=FAMILIES.get(str(architecture)),
        vocab_size=layer.get("vocab_size"),
        draft_vocab_size=config.get("draft_vocab_size"),
        hidden_size=layer.get("hidden_size"),
        layers=layer.get("num_hidden_layers"),
        sliding_layers=types.count("sliding_attention") if isinstance(types, list) else 0,
        sliding_window=layer.get("sliding_window"),
        window_dropped=not window_used,
        block_size=config.get("block_size", nested.get("block_size")),
        mask_token_id=mask if mask is not None else nested.get("mask_token_id"),
        layer_ids=_ids(ids if ids is not None else inner),
        convention="inputs" if convention == "inputs" else "outputs",
        nested_layer_ids=_ids(inner) if ids is not None else None,
        sample_from_anchor=False if speculators and anchor is None else anchor,
        markov_rank=config.get("markov_rank"),
        confidence_declared=config.get("enable_confidence_head"),
        logit_keys=tuple(
            key
            for key in ("output_multiplier", "final_logit_softcapping")
            if key in nested or key in config
        ),
        tensors=headers.tensors,
    )


def _gguf(headers: Headers) -> DrafterShape:
    config = headers.config
    prefix = str(config.get("general.architecture"))

    def get(key: str) -> Any:
        return config.get(f"{prefix}.{key}")

    pattern = get("attention.sliding_window_pattern")
    window = get("attention.sliding_window")
    layers = get("block_count")
    every = layers if window is not None and isinstance(layers, int) else 0
    markov = headers.tensors.get("markov_w1.weight")
    return DrafterShape(
        format="gguf",
        architecture=prefix,
        declared=None,
        vocab_size=headers.tokens,
        draft_vocab_size=None,
        hidden_size=get("embedding_length"),
        layers=layers,
        sliding_layers=sum(map(bool, pattern)) if isinstance(pattern, list) else every,
        sliding_window=window,
        window_dropped=False,
        block_size=get("block_size"),
        mask_token_id=config.get("tokenizer.ggml.mask_token_id"),
        layer_ids=_ids(get("target_layers")),
        convention="inputs",
        nested_layer_ids=None,
        sample_from_anchor=get("sample_from_anchor"),
        markov_rank=markov[-1] if markov else None,
        confidence_declared=get("has_confidence_head"),
        logit_keys=tuple(key for key in ("logit_scale", "final_logit_softcapping") if get(key)),
        tensors=headers.tensors,
    )


def _ids(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) else None
