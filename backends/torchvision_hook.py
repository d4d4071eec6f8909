"""Let a torchvision built for CUDA be imported beside a CPU build of torch.

This file is copied into an engine's CPU environment and started there by a .pth file, so it
imports nothing of museorch. Such a torchvision cannot load its compiled operators, and its Python
half then fails at import, since it registers shapes for operators that nobody defined. They are
defined here by name, just before that half is imported and only where they are missing. They have
no kernel: an engine that called one would get torch's own error.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any

OPERATORS = (
    "nms",
    "qnms",
    "roi_align",
    "qroi_align",
    "_roi_align_backward",
    "roi_pool",
    "_roi_pool_backward",
    "ps_roi_align",
    "_ps_roi_align_backward",
    "ps_roi_pool",
    "_ps_roi_pool_backward",
    "deform_conv2d",
    "_deform_conv2d_backward",
)
REGISTERING = ("torchvision._autograd_registrations", "torchvision._meta_registrations")

_kept: list[Any] = []  # torch drops the definitions with the library object


class Finder:
    """Finds no module; sees torchvision's registrations about to be imported."""

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        if name in REGISTERING and not _kept:
            torch: Any = sys.modules["torch"]
            if not hasattr(torch.ops.torchvision, "nms"):
                library = torch.library.Library("torchvision", "DEF")
                for operator in OPERATORS:
                    library.define(f"{operator}(Tensor input) -> Tensor")
                _kept.append(library)
        return None


def install() -> None:
    sys.meta_path.insert(0, Finder())
