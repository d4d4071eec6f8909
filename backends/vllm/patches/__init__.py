"""The patches for vLLM, as data, and which of them an arm needs."""

from __future__ import annotations

from collections.abc import Mapping

from backends.base import Device, Speculation
from backends.patch import Patch
from backends.vllm.patches import context_norm, launch_image, sampler, wrapper
from backends.vllm.patches.rules import RULES
from backends.vllm.patches.wrapper import NATIVE

__all__ = ["FIRST_NATIVE", "NATIVE", "PATCHES", "RULES", "needed"]

FIRST_NATIVE = "0.28.0"

PATCHES: Mapping[str, Patch] = {
    patch.id: patch
    for module in (wrapper, sampler, context_norm, launch_image)
    for patch in module.PATCHES
}


def needed(version: str, device: Device, speculation: Speculation) -> tuple[str, ...]:
    """Ids of the patches that an arm needs, in the order in which they are applied."""
    return tuple(
        patch.id for patch in PATCHES.values() if patch.wanted(version, device, speculation)
    )
