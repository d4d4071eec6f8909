"""Published GGUF files of Muse Glimmer 30B (meta-models/Muse-Glimmer-30B-GGUF), by size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    old_name: str
    new_name: str
    sha256: str | None = None
    """None: not known."""


KNOWN: Mapping[int, Known] = {
    16_756_681_056: Known(
        "muse-glimmer-30B-kquant-17gb.gguf", "Muse-Glimmer-30B-KQuant-17GB-Q4_K_M.gguf"
    ),
    19_653_957_984: Known(
        "muse-glimmer-30B-kquant-dynamic.gguf", "Muse-Glimmer-30B-KQuant-Dynamic-Q4_K_XL.gguf"
    ),
    1_631_205_312: Known("dflash-kquant.gguf", "dflash-Muse-Glimmer-30B-Q4_K_M.gguf"),
}
"""The sizes are those of the files under their old names."""
