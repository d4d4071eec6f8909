"""Hugging Face checkpoints to GGUF: the command lines of llama.cpp's converter and quantiser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCRIPT = Path(__file__).with_name("convert_script.py")

QUANTISATIONS: Mapping[str, float] = {
    "F32": 32.0,
    "BF16": 16.0,
    "F16": 16.0,
    "Q8_0": 8.5,
    "Q6_K": 6.6,
    "Q5_K_M": 6.1,
    "Q5_K_S": 6.0,
    "Q5_0": 5.9,
    "Q4_K_M": 5.6,
    "Q4_K_S": 5.6,
    "Q4_0": 5.0,
    "Q3_K_L": 5.0,
    "Q3_K_M": 4.8,
    "Q3_K_S": 4.6,
    "Q2_K": 4.4,
}
"""What can be made, with the bits a weight takes at most: for the check of free disk space.

K-quants keep some tensors in a finer type, and fall back to a finer one where rows are no multiple
of 256, hence more than their names say."""

BUFFER_MIB = 256
"""Rows of one tensor that the quantiser holds at a time."""


def converter(
    python: Path, source: Path, checkpoint: Path, out: Path, target: Path | None
) -> tuple[str, ...]:
    """`source`: the converter's folder. `target`: for a drafter, the target's checkpoint."""
    # -P: this package's own modules must not be found by what the converter imports.
    words = (python, "-P", SCRIPT, source, checkpoint, out, *((target,) if target else ()))
    return tuple(map(str, words))


def quantiser(
    binary: Path, bf16: Path, out: Path, quantisation: str, threads: int
) -> tuple[str, ...]:
    return (
        *(str(binary), "--max-buffer-size", str(BUFFER_MIB)),
        *(str(bf16), str(out), quantisation, str(threads)),
    )
