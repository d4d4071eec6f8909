"""The patches for vLLM, as data."""

from __future__ import annotations

from collections.abc import Mapping

from backends.patch import Patch
from backends.vllm.patches import context_norm, launch_image, sampler, wrapper
from backends.vllm.patches.rules import RULES
from backends.vllm.patches.wrapper import NATIVE

__all__ = ["FIRST_NATIVE", "NATIVE", "PATCHES", "RULES"]

FIRST_NATIVE = "0.28.0"

PATCHES: Mapping[str, Patch] = {
    patch.id: patch
    for module in (wrapper, sampler, context_norm, launch_image)
    for patch in module.PATCHES
}
