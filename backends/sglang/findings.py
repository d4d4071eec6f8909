"""What speaks against an arm on SGLang, as seen on 0.5.23."""

from __future__ import annotations

from collections.abc import Iterator

from backends.base import Finding, ServeSpec
from backends.preflight import above_block, too_old
from backends.sglang.patches import FIRST_NATIVE

UNPACKED = ("bf16", "f16")
"""Quantisations whose numbers need no kernel."""


def findings(spec: ServeSpec) -> Iterator[Finding]:
    yield from too_old("SGLang", spec.engine_version, FIRST_NATIVE)
    yield from above_block(spec)
    yield from _gguf(spec)
    if spec.device == "cpu":
        yield Finding(
            "warning",
            "slow-on-cpu",
            "SGLang has no CPU kernels and runs on plain torch: right, but slow.",
            "Use it to check tokens and acceptance, not speed.",
        )
    if spec.kv_dtype != "bf16":
        yield Finding(
            "error",
            "kv-dtype",
            f"SGLang keeps its KV cache in the model's own type, not in {spec.kv_dtype}.",
            "Set serve.kv_dtype to bf16.",
        )
    yield Finding(
        "info",
        "no-request-seed",
        "SGLang draws from one random stream of the server: a request's seed has no effect, so "
        "sampled text cannot be repeated.",
    )


def _gguf(spec: ServeSpec) -> Iterator[Finding]:
    """The target may be a GGUF file, the drafter may not; DFlash works, DSpark does not."""
    if spec.drafter is not None and spec.drafter.weights.format == "gguf":
        yield Finding(
            "error",
            "gguf-drafter",
            "SGLang reads no GGUF file of a drafter: it does not know the architecture `dflash`.",
            "Name the drafter's Hugging Face folder.",
        )
    if spec.target.format != "gguf":
        return
    if spec.speculation == "dspark":
        yield Finding(
            "error",
            "gguf-dspark",
            "SGLang's DSpark wants the target's lm_head as a plain weight, which a GGUF target has "
            "not.",
            "Use dflash, a Hugging Face target, or backend llamacpp.",
        )
    if spec.device == "cpu" and spec.target.quantisation not in UNPACKED:
        yield Finding(
            "error",
            "gguf-kernels",
            f"SGLang's kernels for {spec.target.quantisation} GGUF files need a GPU.",
            "Use a BF16 file, a Hugging Face target, or backend llamacpp on this machine.",
        )
