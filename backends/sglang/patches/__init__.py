"""The patches for SGLang, as data, and which of them an arm needs."""

from __future__ import annotations

from collections.abc import Mapping

from backends.base import Device, Speculation
from backends.patch import Evidence, Patch, Rule
from backends.sglang.patches import cpu, dspark, gguf, sampler

NATIVE = Evidence("sglang/srt/models/muse_glimmer.py", "class MuseGlimmerForConditionalGeneration")
FIRST_NATIVE = "0.5.18"

RULES: tuple[Rule, ...] = ()
PATCHES: Mapping[str, Patch] = {
    patch.id: patch for module in (dspark, sampler, gguf, cpu) for patch in module.PATCHES
}


def needed(version: str, device: Device, speculation: Speculation) -> tuple[str, ...]:
    """Ids of the patches that an arm needs, in the order in which they are applied."""
    return tuple(
        patch.id for patch in PATCHES.values() if patch.wanted(version, device, speculation)
    )
