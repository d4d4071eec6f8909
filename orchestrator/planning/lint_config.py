"""Rules about what a drafter's config says."""

from __future__ import annotations

from collections.abc import Iterator

from backends.base import Finding
from orchestrator.planning.lint_case import PUBLISHED_VOCAB, Case, error, warning


def method(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.format != "gguf" and d.declared is None:
        yield error(
            "architecture",
            f"The architecture {d.architecture} is none that museorch knows as a drafter.",
            "Use a DFlash or DSpark drafter for Muse Glimmer.",
        )
    elif d.declared is not None and d.declared != d.family:
        yield error(
            "architecture",
            f"The architecture {d.architecture} says {d.declared}, the tensors are those of a "
            f"{d.family} drafter.",
            "Take config.json and weights from the same repository.",
        )
    if case.method is not None and case.method != d.family:
        if d.family == "dflash2" and case.method == "dflash":
            yield warning(
                "dflash2",
                "This is a DFlash2 drafter: it runs under method dflash, and the V1 runner of vLLM "
                "silently treats it as DFlash.",
                "Look for `Using V2 Model Runner` in vLLM's log.",
            )
        else:
            yield error(
                "method",
                f"Method {case.method} with a {d.family} drafter reads the wrong rows.",
                f"Use method {'dflash' if d.family == 'dflash2' else d.family}.",
            )


def vocabulary(case: Case) -> Iterator[Finding]:
    d, wanted = case.drafter, case.target.vocab_size
    if d.vocab_size is None:
        if d.declared == "dflash" and wanted not in (None, PUBLISHED_VOCAB):
            yield error(
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
            yield error(
                "vocab-size", "No vocab_size in the config.", f"Set it to the target's {wanted}."
            )
    elif wanted is not None and d.vocab_size != wanted:
        yield error(
            "vocab-size",
            f"The drafter has {d.vocab_size} tokens, the target {wanted}.",
            "Use a drafter that was trained for this target.",
        )
    reduced = d.draft_vocab_size
    if reduced is not None and reduced != wanted and not any("d2t" in n for n in d.tensors):
        yield error(
            "draft-vocab",
            f"A reduced vocabulary of {reduced} tokens, and no d2t table to map it.",
            "Use the complete checkpoint.",
        )


def window(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if not d.sliding_layers:
        return
    if d.sliding_window is None or d.window_dropped:
        yield error(
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


def layers(case: Case) -> Iterator[Finding]:
    d, ids = case.drafter, case.drafter.layer_ids
    if not ids:
        yield error("target-layers", "No target_layer_ids.", "Set them as the drafter was trained.")
        return
    nested = d.nested_layer_ids
    if nested is not None and nested != ids:
        yield error(
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
        yield error(
            "target-layers",
            f"target_layer_ids {wrong} are outside {low} to {high} ({counted}, {d.format} "
            f"convention) of a target with {case.target.layers} layers.",
            "The last layer's output is no other layer's input, so it cannot be read.",
        )
    if list(ids) != sorted(set(ids)):
        yield error("target-layers", f"target_layer_ids {list(ids)} are not ascending.", None)
    yield from _convention(case, ids, inputs)


def _convention(case: Case, ids: tuple[int, ...], inputs: bool) -> Iterator[Finding]:
    if case.published is None:
        return
    shift = 1 if inputs else 0
    expected = tuple(i + shift for i in case.published.layer_outputs)
    other = tuple(i + 1 - shift for i in case.published.layer_outputs)
    if ids == other:
        yield error(
            "layer-convention",
            f"target_layer_ids {list(ids)} count {'outputs' if inputs else 'inputs'} of layers; "
            f"this format counts {'inputs' if inputs else 'outputs'}, so every layer read is one "
            f"{'early' if inputs else 'late'}.",
            f"Set {list(expected)}.",
        )
    elif ids != expected:
        yield warning(
            "target-layers",
            f"target_layer_ids {list(ids)} are not the published drafters' {list(expected)}.",
            "Right only if this drafter was trained so.",
        )


def anchor(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.family != "dspark":
        return
    if d.sample_from_anchor is None:
        yield warning(
            "sample-from-anchor",
            "sample_from_anchor is not said, and engines assume different values.",
            "Set it as trained: false where the block is one anchor and block_size drafts.",
        )
    elif d.sample_from_anchor and case.published and not d.has_confidence:
        yield error(
            "sample-from-anchor",
            "sample_from_anchor is true; the published DSpark head of this target was trained "
            "with false. Acceptance at position 0 falls from about 85 % to 12 %.",
            "Set it to false.",
        )


def draft_tokens(case: Case) -> Iterator[Finding]:
    d, k = case.drafter, case.draft_tokens
    if d.block_size is None:
        yield error("block-size", "No block_size.", "Set it as the drafter was trained.")
        return
    if k is None:
        return
    most = d.block_size if d.family == "dspark" else d.block_size - 1
    if k > most:
        yield error(
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


def mask(case: Case) -> Iterator[Finding]:
    mask = case.drafter.mask_token_id
    if mask is None:
        yield error("mask-token", "No mask_token_id.", "Set it as the drafter was trained.")
    elif case.target.vocab_size is not None and mask >= case.target.vocab_size:
        yield error(
            "mask-token",
            f"mask_token_id {mask} is outside the target's {case.target.vocab_size} tokens.",
            "Set it as the drafter was trained.",
        )
    elif case.published and mask != case.published.mask_token_id:
        yield error(
            "mask-token",
            f"mask_token_id is {mask}; this target's drafters were trained with "
            f"{case.published.mask_token_id}.",
            "Set it so.",
        )
