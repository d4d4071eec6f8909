"""Drafter lint: what would make a drafter fail, or draft badly without a word, with a target.

Most of these faults raise no error in any engine; acceptance is just low. Only headers are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backends.base import Finding
from orchestrator.planning.drafter_shape import (
    DrafterShape,
    TargetShape,
    drafter_shape,
    target_shape,
)
from orchestrator.planning.headers import read_headers

Method = Literal["dflash", "dspark"]


@dataclass(frozen=True)
class Published:
    """What the published drafters of one target were trained with."""

    layer_outputs: tuple[int, ...]
    sliding_window: int
    mask_token_id: int


PUBLISHED_VOCAB = 202048
"""What engines assume of a drafter that names no vocabulary, as the published one does."""

PUBLISHED = {
    # Muse Glimmer 30B by hidden size and layers: meta-models/Muse-Glimmer-30B-assistant.
    (6656, 52): Published((1, 13, 25, 37, 49), 2048, 201818),
}


@dataclass(frozen=True)
class Case:
    drafter: DrafterShape
    target: TargetShape
    method: Method | None
    draft_tokens: int | None

    @property
    def published(self) -> Published | None:
        return PUBLISHED.get((self.target.hidden_size, self.target.layers))


def lint(
    drafter: Path, target: Path, *, method: Method | None = None, draft_tokens: int | None = None
) -> tuple[Finding, ...]:
    """Everything found, errors first. InputError where a header cannot be read.

    `method`: how it is to be run, None takes what its tensors say. `draft_tokens`: K.
    """
    case = Case(
        drafter_shape(read_headers(drafter)),
        target_shape(read_headers(target)),
        method,
        draft_tokens,
    )
    found = [finding for rule in RULES for finding in rule(case)]
    order = ("error", "warning", "info")
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


def _method(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.format != "gguf" and d.declared is None:
        yield _error(
            "architecture",
            f"The architecture {d.architecture} is none that museorch knows as a drafter.",
            "Use a DFlash or DSpark drafter for Muse Glimmer.",
        )
    elif d.declared is not None and d.declared != d.family:
        yield _error(
            "architecture",
            f"The architecture {d.architecture} says {d.declared}, the tensors are those of a "
            f"{d.family} drafter.",
            "Take config.json and weights from the same repository.",
        )
    if case.method is not None and case.method != d.family:
        if d.family == "dflash2" and case.method == "dflash":
            yield _warning(
                "dflash2",
                "This is a DFlash2 drafter: it runs under method dflash, and the V1 runner of vLLM "
                "silently treats it as DFlash.",
                "Look for `Using V2 Model Runner` in vLLM's log.",
            )
        else:
            yield _error(
                "method",
                f"Method {case.method} with a {d.family} drafter reads the wrong rows.",
                f"Use method {'dflash' if d.family == 'dflash2' else d.family}.",
            )


def _vocabulary(case: Case) -> Iterator[Finding]:
    d, wanted = case.drafter, case.target.vocab_size
    if d.vocab_size is None:
        if d.declared == "dflash" and wanted not in (None, PUBLISHED_VOCAB):
            yield _error(
                "vocab-size",
                f"No vocab_size in the config; engines then take {PUBLISHED_VOCAB}, and the target "
                f"has {wanted}.",
                f"Set it to {wanted}.",
            )
        elif d.declared == "dflash":
            yield Finding(
                "info",
                "vocab-size",
                "No vocab_size in the config; vLLM before 0.28 then takes 151936 and never drafts "
                "a token above.",
                "The patch vllm-drafter-defaults mends it there.",
            )
        else:
            yield _error(
                "vocab-size", "No vocab_size in the config.", f"Set it to the target's {wanted}."
            )
    elif wanted is not None and d.vocab_size != wanted:
        yield _error(
            "vocab-size",
            f"The drafter has {d.vocab_size} tokens, the target {wanted}.",
            "Use a drafter that was trained for this target.",
        )
    reduced = d.draft_vocab_size
    if reduced is not None and reduced != wanted and not any("d2t" in n for n in d.tensors):
        yield _error(
            "draft-vocab",
            f"A reduced vocabulary of {reduced} tokens, and no d2t table to map it.",
            "Use the complete checkpoint.",
        )


def _window(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if not d.sliding_layers:
        return
    if d.sliding_window is None or d.window_dropped:
        yield _error(
            "sliding-window",
            f"{d.sliding_layers} sliding layers and "
            + (
                "no window."
                if d.sliding_window is None
                else "use_sliding_window is not set, so Qwen3 config classes drop the window."
            ),
            "Set sliding_window as trained and use_sliding_window to true.",
        )
        return
    trained = case.published.sliding_window if case.published else case.target.sliding_window
    if trained is not None and d.sliding_window != trained:
        whose = "the published drafter was trained with" if case.published else "the target has"
        yield Finding(
            "error" if case.published else "warning",
            "sliding-window",
            f"A sliding window of {d.sliding_window}; {whose} {trained}.",
            "Set sliding_window as trained; another value lowers acceptance without an error.",
        )


def _layers(case: Case) -> Iterator[Finding]:
    d, ids = case.drafter, case.drafter.layer_ids
    if not ids:
        yield _error(
            "target-layers", "No target_layer_ids.", "Set them as the drafter was trained."
        )
        return
    nested = d.nested_layer_ids
    if nested is not None and nested != ids:
        yield _error(
            "target-layers",
            f"target_layer_ids are {list(ids)} at top level and {list(nested)} in dflash_config; "
            "engines read one or the other.",
            "Make them equal.",
        )
    elif nested is None and d.format == "hf" and d.family == "dflash":
        yield Finding(
            "info",
            "target-layers-nested",
            "No dflash_config.target_layer_ids, which vLLM's V1 runner looks for.",
            "museorch serves an overlay there.",
        )
    inputs = d.convention == "inputs"
    low, high = (1, case.target.layers - 1) if inputs else (0, case.target.layers - 2)
    wrong = [i for i in ids if not low <= i <= high]
    counted = "inputs of layers" if inputs else "outputs of layers"
    if wrong:
        yield _error(
            "target-layers",
            f"target_layer_ids {wrong} are outside {low} to {high} ({counted}, {d.format} "
            f"convention) of a target with {case.target.layers} layers.",
            "The last layer's output is no other layer's input, so it cannot be read.",
        )
    if list(ids) != sorted(set(ids)):
        yield _error("target-layers", f"target_layer_ids {list(ids)} are not ascending.", None)
    yield from _convention(case, ids, inputs)


def _convention(case: Case, ids: tuple[int, ...], inputs: bool) -> Iterator[Finding]:
    if case.published is None:
        return
    shift = 1 if inputs else 0
    expected = tuple(i + shift for i in case.published.layer_outputs)
    other = tuple(i + 1 - shift for i in case.published.layer_outputs)
    if ids == other:
        yield _error(
            "layer-convention",
            f"target_layer_ids {list(ids)} count {'outputs' if inputs else 'inputs'} of layers; "
            f"this format counts {'inputs' if inputs else 'outputs'}, so every layer read is one "
            f"{'early' if inputs else 'late'}.",
            f"Set {list(expected)}.",
        )
    elif ids != expected:
        yield _warning(
            "target-layers",
            f"target_layer_ids {list(ids)} are not the published drafters' {list(expected)}.",
            "Right only if this drafter was trained so.",
        )


def _anchor(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.family != "dspark":
        return
    if d.sample_from_anchor is None:
        yield _warning(
            "sample-from-anchor",
            "sample_from_anchor is not said, and engines assume different values.",
            "Set it as trained: false where the block is one anchor and block_size drafts.",
        )
    elif d.sample_from_anchor and case.published and not d.has_confidence:
        yield _error(
            "sample-from-anchor",
            "sample_from_anchor is true; the published DSpark head of this target was trained "
            "with false. Acceptance at position 0 falls from about 85 % to 12 %.",
            "Set it to false.",
        )


def _draft_tokens(case: Case) -> Iterator[Finding]:
    d, k = case.drafter, case.draft_tokens
    if d.block_size is None:
        yield _error("block-size", "No block_size.", "Set it as the drafter was trained.")
        return
    if k is None:
        return
    most = d.block_size if d.family == "dspark" else d.block_size - 1
    if k > most:
        yield _error(
            "draft-tokens",
            f"{k} draft tokens; a block of {d.block_size} gives {most}.",
            f"Ask for at most {most}.",
        )
    elif d.format == "gguf" and k == d.block_size and d.sample_from_anchor is False:
        yield Finding(
            "info",
            "draft-tokens",
            f"llama.cpp drafts {d.block_size - 1} with this drafter, not {k}.",
            None,
        )


def _mask(case: Case) -> Iterator[Finding]:
    mask = case.drafter.mask_token_id
    if mask is None:
        yield _error("mask-token", "No mask_token_id.", "Set it as the drafter was trained.")
    elif case.target.vocab_size is not None and mask >= case.target.vocab_size:
        yield _error(
            "mask-token",
            f"mask_token_id {mask} is outside the target's {case.target.vocab_size} tokens.",
            "Set it as the drafter was trained.",
        )
    elif case.published and mask != case.published.mask_token_id:
        yield _error(
            "mask-token",
            f"mask_token_id is {mask}; this target's drafters were trained with "
            f"{case.published.mask_token_id}.",
            "Set it so.",
        )


def _sizes(case: Case) -> Iterator[Finding]:
    d = case.drafter
    own = d.tensor("embed_tokens.weight", "token_embd.weight")
    if d.hidden_size is not None and d.hidden_size != case.target.hidden_size and own is None:
        yield _error(
            "hidden-size",
            f"Hidden size {d.hidden_size} with embeddings shared from a target of "
            f"{case.target.hidden_size}.",
            "Use a drafter that was trained for this target.",
        )
    fc = d.tensor("fc.weight", "encoder.fc.weight")
    if fc is not None and d.layer_ids:
        wanted = len(d.layer_ids) * case.target.hidden_size
        if fc[-1] != wanted:
            yield _error(
                "features",
                f"The drafter's encoder takes {fc[-1]} features; {len(d.layer_ids)} target layers "
                f"of {case.target.hidden_size} give {wanted}.",
                "The layer ids or the target are not those it was trained with.",
            )
    markov = d.tensor("markov_head.markov_w1.weight", "markov_w1.weight")
    if markov is not None and d.markov_rank is not None and markov[-1] != d.markov_rank:
        yield _error(
            "markov-rank", f"markov_rank {d.markov_rank}, and a head of rank {markov[-1]}.", None
        )
    if markov is not None and case.target.vocab_size not in (None, markov[0]):
        yield _error(
            "markov-vocab",
            f"A Markov head for {markov[0]} tokens, and a target of {case.target.vocab_size}.",
            "Use a drafter that was trained for this target.",
        )


def _tensors(case: Case) -> Iterator[Finding]:
    d = case.drafter
    missing = [name for name in _expected(d) if d.tensor(*name.split("|")) is None]
    if missing:
        shown = ", ".join(name.split("|")[0] for name in missing[:4])
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        yield _error(
            "tensors", f"Tensors are missing: {shown}{more}.", "Fetch the complete checkpoint."
        )


def _expected(d: DrafterShape) -> Iterator[str]:
    """Tensor names; `|` parts names of the same tensor."""
    layers = d.layers or 0
    if d.format == "gguf":
        yield from ("fc.weight", "enc.output_norm.weight", "output_norm.weight")
        parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        yield from (f"blk.{i}.{part}.weight" for i in range(layers) for part in parts)
        if d.family == "dspark":
            yield "markov_w2.weight"
        return
    yield from ("fc.weight|encoder.fc.weight", "norm.weight")
    yield "hidden_norm.weight|encoder.output_norm_enc.weight"
    attention = [f"self_attn.{p}_proj" for p in "qkvo"]
    feed = [f"mlp.{p}_proj" for p in ("gate", "up", "down")]
    yield from (f"layers.{i}.{p}.weight" for i in range(layers) for p in (*attention, *feed))
    if d.declared == "dspark" or d.family == "dspark":
        yield from ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight")


def _confidence(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.confidence_declared and not d.has_confidence:
        yield _error(
            "confidence-head",
            "The config declares a confidence head that the checkpoint does not have.",
            "Set enable_confidence_head to false.",
        )
    elif d.has_confidence and d.confidence_declared is False:
        yield _warning(
            "confidence-head",
            "There is a confidence head, and the config switches it off.",
            "Adaptive verification needs it; set enable_confidence_head to true to use it.",
        )


def _engines(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.family != "dspark" or d.format == "gguf":
        return
    if d.architecture == "Qwen3DSparkModel":
        yield Finding(
            "info",
            "sglang-layers",
            "SGLang reads this drafter's target layers one early.",
            "The patch sglang-dspark-layers mends it; museorch applies it.",
        )
    if d.logit_keys:
        yield _warning(
            "logit-scale",
            f"The config has {' and '.join(d.logit_keys)}; llama.cpp applies them before the "
            "Markov bias, SGLang and vLLM do not.",
            "For SGLang apply the patch sglang-dspark-logits.",
        )


RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    *(_method, _vocabulary, _window, _layers, _anchor, _draft_tokens, _mask),
    *(_sizes, _tensors, _confidence, _engines),
)


def _error(code: str, text: str, fix: str | None) -> Finding:
    return Finding("error", code, text, fix)


def _warning(code: str, text: str, fix: str | None) -> Finding:
    return Finding("warning", code, text, fix)
