"""Which ggml type each tensor gets, as llama-quantize mixes them (llama.cpp's llama-quant.cpp)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type

from orchestrator.dummy.layout import Layout, Planned

FILE_TYPES: Mapping[str, int] = {"bf16": 32, "q8_0": 7, "q4_k_m": 15}
"""llama.cpp's numbers of the mixtures, for general.file_type."""
NARROW = {Type.Q4_K: Type.Q5_0, Type.Q6_K: Type.Q8_0}
"""What takes the place of a type whose blocks are wider than a row."""


def types(layout: Layout, quantisation: str) -> dict[str, Type]:
    return {one.name: _type(one, layout.layers, quantisation) for one in layout.tensors}


def _type(tensor: Planned, layers: int, quantisation: str) -> Type:
    if tensor.fill is not None:
        return Type.F32
    if quantisation != "q4_k_m":
        return {"bf16": Type.BF16, "q8_0": Type.Q8_0}[quantisation]
    found = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down)\.weight", tensor.name)
    more = tensor.name == "output.weight" or (found and _more_bits(int(found[1]), layers))
    kind = Type.Q6_K if more else Type.Q4_K
    return NARROW[kind] if tensor.shape[-1] % GGML_QUANT_SIZES[kind][0] else kind


def _more_bits(layer: int, layers: int) -> bool:
    """The first and the last eighth, and every third layer between them."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
