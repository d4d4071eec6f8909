"""GGUF targets in SGLang: what works, by trying it on 0.5.23, and what is refused with the reason.

The target may be a GGUF file, the drafter may not; DFlash works, DSpark does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from backends.base import Finding, ServeSpec

UNPACKED = ("bf16", "f16")
"""Quantisations whose numbers need no kernel."""


def findings(spec: ServeSpec) -> Iterator[Finding]:
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
