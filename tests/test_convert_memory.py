"""Peak memory of a conversion, measured: below 1.5 times the largest tensor and 1 GB."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 262_144
"""Of 256 numbers: a tensor of 134 MB."""


@pytest.mark.slow
@pytest.mark.engine("llamacpp")
@pytest.mark.engine("vllm")
def test_memory_stays_near_one_tensor(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tools.convert_memory", str(tmp_path), str(ROWS)]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\| 134 \| (\w+) \| (\d+) \| (\d+) \|$", told, re.M)
    assert [name for name, _, _ in rows] == ["BF16", "Q8_0", "Q4_K_M"]
    for name, peak, limit in rows:
        assert int(peak) < int(limit), name
