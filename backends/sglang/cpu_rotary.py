"""The one function of vLLM that SGLang wants when it runs on a CPU, in torch.

This file is copied into SGLang's CPU environment as `vllm/_custom_ops.py`, since SGLang 0.5.23
takes its rotary embedding from there on devices without a kernel of its own; it imports nothing
of museorch. The tensors are torch's.
"""

from __future__ import annotations

from typing import Any


def rotary_embedding(
    positions: Any, query: Any, key: Any, head_size: int, cos_sin_cache: Any, is_neox: bool
) -> None:
    """Rotate `query` and `key` in place.

    They hold tokens x (heads * head_size). A row of `cos_sin_cache` has the cosines, then the
    sines, of one position. neox pairs element i with i + rotary_dim / 2, else 2i with 2i + 1.
    """
    cos, sin = cos_sin_cache[positions.flatten()].float().unsqueeze(1).chunk(2, dim=-1)
    half = cos.shape[-1]
    for tensor in (query, key):
        if tensor is None:
            continue
        heads = tensor.view(cos.shape[0], -1, head_size)[..., : 2 * half]
        if is_neox:
            first, second = heads[..., :half], heads[..., half:]
        else:
            first, second = heads[..., 0::2], heads[..., 1::2]
        x, y = first.float(), second.float()
        turned = (x * cos - y * sin, y * cos + x * sin)  # both before x, maybe `first`, changes
        first.copy_(turned[0])
        second.copy_(turned[1])
