"""The hook in the environments it is made for."""

from __future__ import annotations

import subprocess

import pytest

from orchestrator.environments.engines import resolve

CODE = """
import torchvision
from torchvision.transforms.v2 import functional
import torch
print(torch.ops.torchvision.nms, functional.resize(torch.zeros(3, 8, 8), [4, 4]).shape)
"""


def run(backend: str, *options: str) -> subprocess.CompletedProcess[str]:
    python = resolve(backend, device="cpu").executable
    return subprocess.run(
        [str(python), *options, "-c", CODE], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("vllm", marks=pytest.mark.engine("vllm")),
        pytest.param("sglang", marks=pytest.mark.engine("sglang")),
    ],
)
def test_torchvision_is_imported_beside_a_cpu_torch(backend: str) -> None:
    done = run(backend)
    assert done.returncode == 0, done.stderr
    assert "torchvision.nms torch.Size([3, 4, 4])" in done.stdout
