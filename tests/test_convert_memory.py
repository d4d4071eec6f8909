"""Peak memory of a conversion, measured: below 1.5 times the largest tensor and 1 GB."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SMALL, LARGE = 8_192, 262_144
"""Rows of 256 numbers: tensors of 4 and of 134 MB."""


@pytest.mark.slow
@pytest.mark.engine("llamacpp")
@pytest.mark.engine("vllm")
def test_memory_stays_near_one_tensor(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tools.convert_memory", str(tmp_path), str(SMALL), str(LARGE)]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\| (4|134) \| (\w+) \| (\d+) \| (\d+) \|$", told, re.M)
    assert [name for _, name, _, _ in rows] == ["BF16", "Q8_0", "Q4_K_M"] * 2
    for _, name, peak, limit in rows:
        assert int(peak) < int(limit), name
    small, large = (int(peak) for _, name, peak, _ in rows if name == "BF16")
    # The limit's 1 GB would hide it at this size: whole tensors in float32 add 400 MB.
    assert large - small < 134
