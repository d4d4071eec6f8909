"""Random blocks of each ggml type that decode to finite values of about the same size.

Bits are random, so that a kernel moves what it would move; scales are not. Random scales would
decode to infinities, and one NaN among a drafter's logits is enough to end a CUDA server: its
argmax of NaNs is -1, and llama.cpp's DSpark graph looks that row up in the Markov head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

STD = 0.02
"""The initializer_range of Muse Glimmer's config."""

POOL_BYTES = 32 << 20
"""More than caches hold, so that repeated blocks are read from memory as others are."""

Bytes = NDArray[np.uint8]


class Pool:
    """Random blocks of one type, written over and over: a file is as fast as its disk."""

    def __init__(self, kind: Type, wanted: int) -> None:
        """`wanted`: bytes that will be poured in all."""
        count = min(POOL_BYTES, wanted) // GGML_QUANT_SIZES[kind][1]
        self._bytes = memoryview(random_blocks(kind, count).tobytes())
        self._at = 0

    def pour(self, out: BinaryIO, size: int) -> None:
        """Write `size` bytes, from where the last tensor ended on."""
        while size:
            part = self._bytes[self._at : self._at + size]
            out.write(part)
            self._at = (self._at + len(part)) % len(self._bytes)
            size -= len(part)


def random_blocks(kind: Type, count: int, seed: int = 0) -> Bytes:
    """`count` blocks, one in each row."""
    width = GGML_QUANT_SIZES[kind][1]
    bits = np.random.default_rng(seed).integers(0, 256, (count, width), dtype=np.uint8)
    _SCALES[kind](bits)
    return bits


def _half(value: float) -> Bytes:
    return np.array([value], dtype="<f2").view(np.uint8)


def _q4_k(blocks: Bytes) -> None:
    """value = d * scale * q - dmin * min, scale and min of 6 bits, q of 4 bits with mean 7.5."""
    scale, q = np.arange(64), np.arange(16)
    spread = (scale**2).mean() * (q**2).mean() - (scale.mean() * q.mean()) ** 2
    d = STD / np.sqrt(spread + q.mean() ** 2 * scale.var())
    blocks[:, 0:2] = _half(d)
    blocks[:, 2:4] = _half(d * q.mean())


def _q6_k(blocks: Bytes) -> None:
    """value = d * scale * (q - 32), scale of 8 bits, q of 6 bits; d is last."""
    scale, q = np.arange(-128, 128), np.arange(-32, 32)
    blocks[:, -2:] = _half(STD / np.sqrt((scale**2).mean() * (q**2).mean()))


def _q8_0(blocks: Bytes) -> None:
    blocks[:, 0:2] = _half(STD / np.arange(-128, 128).std())


def _q5_0(blocks: Bytes) -> None:
    blocks[:, 0:2] = _half(STD / np.arange(-16, 16).std())


def _bf16(blocks: Bytes) -> None:
    words = blocks.view("<u2")
    values = np.random.default_rng(len(words)).normal(0, STD, words.shape).astype("<f4")
    words[:] = values.view("<u4") >> 16


_SCALES: Mapping[Type, Callable[[Bytes], None]] = {
    Type.Q4_K: _q4_k,
    Type.Q6_K: _q6_k,
    Type.Q8_0: _q8_0,
    Type.Q5_0: _q5_0,
    Type.BF16: _bf16,
}
