"""The rotary stand-in against the definition, in SGLang's own environment."""

from __future__ import annotations

import subprocess

import pytest

from orchestrator.environments.engines import resolve

CODE = """
import torch
from vllm._custom_ops import rotary_embedding

torch.manual_seed(0)
tokens, heads, size, rotary = 5, 3, 8, 6
positions = torch.tensor([0, 3, 1, 7, 2])
angles = torch.arange(10).unsqueeze(1) * torch.tensor([1.0, 0.1, 0.01])
cache = torch.cat([angles.cos(), angles.sin()], dim=-1)
for is_neox in (True, False):
    # Slices of one matrix, as a fused projection gives them.
    fused = torch.randn(tokens, heads * size + size)
    query, key = fused[:, : heads * size], fused[:, heads * size :]
    before = fused.clone().view(tokens, heads + 1, size)
    rotary_embedding(positions, query, key, size, cache, is_neox)
    after = fused.view(tokens, heads + 1, size)
    for pair in range(rotary // 2):
        i, j = (pair, pair + rotary // 2) if is_neox else (2 * pair, 2 * pair + 1)
        angle = angles[positions, pair].unsqueeze(1)
        turned = torch.complex(before[..., i], before[..., j]) * torch.exp(1j * angle)
        torch.testing.assert_close(after[..., i], turned.real)
        torch.testing.assert_close(after[..., j], turned.imag)
    assert torch.equal(after[..., rotary:], before[..., rotary:])
print("equal")
"""


@pytest.mark.engine("sglang")
def test_it_rotates_pairs_in_place() -> None:
    python = resolve("sglang", device="cpu").executable
    done = subprocess.run([str(python), "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
