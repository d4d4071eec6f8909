"""The patches for SGLang, as data, and which of them an arm needs."""

from __future__ import annotations

from collections.abc import Mapping

from backends.base import Device, Speculation, Weights
from backends.patch import Evidence, Patch, Rule
from backends.sglang.patches import cpu, dspark, dtype, gguf, sampler

NATIVE = Evidence("sglang/srt/models/muse_glimmer.py", "class MuseGlimmerForConditionalGeneration")
FIRST_NATIVE = "0.5.18"

RULES: tuple[Rule, ...] = ()
PATCHES: Mapping[str, Patch] = {
    patch.id: patch for module in (dspark, sampler, gguf, dtype, cpu) for patch in module.PATCHES
}


def needed(version: str, device: Device, speculation: Speculation) -> tuple[str, ...]:
    """Ids of the patches that an arm needs, in the order in which they are applied."""
    return tuple(
        patch.id for patch in PATCHES.values() if patch.wanted(version, device, speculation)
    )


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
