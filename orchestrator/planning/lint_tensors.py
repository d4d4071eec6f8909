"""Rules about a drafter's tensors, and about what engines make of them."""

from __future__ import annotations

from collections.abc import Iterator

from backends.base import Finding
from orchestrator.planning.drafter_shape import (
    DrafterShape,
)
from orchestrator.planning.lint_case import Case, error, warning


def sizes(case: Case) -> Iterator[Finding]:
    d = case.drafter
    own = d.tensor("embed_tokens.weight", "token_embd.weight")
    if d.hidden_size is not None and d.hidden_size != case.target.hidden_size and own is None:
        yield error(
            "hidden-size",
            f"Hidden size {d.hidden_size} with embeddings shared from a target of "
            f"{case.target.hidden_size}.",
            "Use a drafter that was trained for this target.",
        )
    fc = d.tensor("fc.weight", "encoder.fc.weight")
    if fc is not None and d.layer_ids:
        wanted = len(d.layer_ids) * case.target.hidden_size
        if fc[-1] != wanted:
            yield error(
                "features",
                f"The drafter's encoder takes {fc[-1]} features; {len(d.layer_ids)} target layers "
                f"of {case.target.hidden_size} give {wanted}.",
                "The layer ids or the target are not those it was trained with.",
            )
    markov = d.tensor("markov_head.markov_w1.weight", "markov_w1.weight")
    if markov is not None and d.markov_rank is not None and markov[-1] != d.markov_rank:
        yield error(
            "markov-rank", f"markov_rank {d.markov_rank}, and a head of rank {markov[-1]}.", None
        )
    if markov is not None and case.target.vocab_size not in (None, markov[0]):
        yield error(
            "markov-vocab",
            f"A Markov head for {markov[0]} tokens, and a target of {case.target.vocab_size}.",
            "Use a drafter that was trained for this target.",
        )


def tensors(case: Case) -> Iterator[Finding]:
    d = case.drafter
    missing = [name for name in _expected(d) if d.tensor(*name.split("|")) is None]
    if missing:
        shown = ", ".join(name.split("|")[0] for name in missing[:4])
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        yield error(
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


def confidence(case: Case) -> Iterator[Finding]:
    d = case.drafter
    if d.confidence_declared and not d.has_confidence:
        yield error(
            "confidence-head",
            "The config declares a confidence head that the checkpoint does not have.",
            "Set enable_confidence_head to false.",
        )
    elif d.has_confidence and d.confidence_declared is False:
        yield warning(
            "confidence-head",
            "There is a confidence head, and the config switches it off.",
            "Adaptive verification needs it; set enable_confidence_head to true to use it.",
        )


def engines(case: Case) -> Iterator[Finding]:
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
        yield warning(
            "logit-scale",
            f"The config has {' and '.join(d.logit_keys)}; llama.cpp applies them before the "
            "Markov bias, SGLang and vLLM do not.",
            "For SGLang apply the patch sglang-dspark-logits.",
        )
