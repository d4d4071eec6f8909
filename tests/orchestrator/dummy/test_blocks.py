"""Random blocks, decoded as ggml decodes them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

from orchestrator.dummy.blocks import STD, Pool, random_blocks


@pytest.mark.parametrize("kind", [Type.Q4_K, Type.Q6_K, Type.Q8_0, Type.Q5_0, Type.BF16])
def test_values_are_finite_and_of_the_size_of_fresh_weights(kind: Type) -> None:
    values = dequantize(random_blocks(kind, 60_000), kind)
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(STD, rel=0.03)
    assert abs(values.mean()) < STD / 10
    assert np.abs(values).max() < 10 * STD


def test_a_pool_goes_on_where_it_ended_and_over_its_end() -> None:
    pool, out = Pool(Type.Q8_0, 34 * 10), io.BytesIO()
    pool.pour(out, 34 * 7)
    pool.pour(out, 34 * 8)
    written = out.getvalue()
    once = random_blocks(Type.Q8_0, 10).tobytes()
    assert written == (once + once)[: 34 * 15]
    assert GGML_QUANT_SIZES[Type.Q8_0] == (32, 34)
