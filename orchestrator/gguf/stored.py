"""The tensors of a Hugging Face checkpoint: where they lie, and rows of them as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.errors import InputError
from orchestrator.inputs.hub import INDEX
from orchestrator.planning.headers import json_object

SIZES = {"BF16": 2, "F16": 2, "F32": 4}
"""Bytes of a value, for the types that are compared."""


@dataclass(frozen=True)
class Stored:
    """A tensor inside a safetensors file."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def rows(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        width = self.shape[-1]
        size = SIZES[self.dtype]
        found = []
        with self.file.open("rb") as file:
            for number in numbers:
                file.seek(self.offset + number * width * size)
                found.append(file.read(width * size))
        raw = b"".join(found)
        if self.dtype == "BF16":
            wide = np.frombuffer(raw, dtype=np.uint16).astype(np.uint32) << 16
            values = wide.view(np.float32)
        else:
            values = np.frombuffer(raw, dtype=np.float16 if size == 2 else np.float32)
        return values.reshape(len(numbers), width).astype(np.float32)


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Every tensor of a checkpoint.

    Raises InputError for a file that is damaged or cut off, or lacks what the index says.
    """
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            size = path.stat().st_size
            for name, tensor, end in _in_file(path):
                found[name] = tensor
                if end > size:
                    raise InputError("is cut off.", where=str(path), fix="Fetch it again.")
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from None
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise InputError(
                "its header is damaged.", where=str(path), fix="Fetch it again."
            ) from None
    index = folder / INDEX
    named = json_object(index).get("weight_map") if index.exists() else {}
    if absent := sorted(set(named if isinstance(named, dict) else ()) - found.keys()):
        raise InputError(
            f"names {absent[0]}, which no file has.", where=str(index), fix="Fetch it again."
        )
    return found


def _in_file(path: Path) -> Iterator[tuple[str, Stored, int]]:
    """Name, tensor, and where it ends in the file. ValueError where the numbers do not fit."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape = str(entry["dtype"]), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        values = (begin, end, *shape)
        if not all(isinstance(value, int) and value >= 0 for value in values):
            raise ValueError(name)
        if dtype in SIZES and end - begin != SIZES[dtype] * prod(shape):
            raise ValueError(name)
        yield name, Stored(path, dtype, shape, 8 + length + begin), 8 + length + end
