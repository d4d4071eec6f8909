"""The patches for SGLang, as data, and those that only certain weights call for."""

from __future__ import annotations

from collections.abc import Mapping

from backends.base import Speculation, Weights
from backends.patch import Evidence, Patch, Rule
from backends.sglang.patches import cpu, dspark, dtype, gguf, sampler

NATIVE = Evidence("sglang/srt/models/muse_glimmer.py", "class MuseGlimmerForConditionalGeneration")
FIRST_NATIVE = "0.5.18"

RULES: tuple[Rule, ...] = ()
PATCHES: Mapping[str, Patch] = {
    patch.id: patch for module in (dspark, sampler, gguf, dtype, cpu) for patch in module.PATCHES
}


def for_weights(target: Weights, speculation: Speculation) -> tuple[str, ...]:
    """Ids of the patches that the kind of weights calls for."""
    found = []
    if target.format == "gguf":
        found.append(gguf.SCALE.id)
        if target.quantisation == "bf16":
            found.append(gguf.BF16.id)
    if speculation == "dflash" and target.quantisation in ("f16", "f32"):
        found.append(dtype.EMBEDS.id)
    return tuple(found)
