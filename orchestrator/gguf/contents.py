"""A GGUF file's tensors as they are stored, and rows of them as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from backends.errors import InputError
from orchestrator.planning.drafter_shape import Family, drafter_shape
from orchestrator.planning.headers import Headers, Shape, read_headers

TARGET_ARCHITECTURE = "muse-glimmer"
DRAFTER_ARCHITECTURE = "dflash"
"""llama.cpp has one name for DFlash and DSpark."""
ALIGNMENT = 32
"""Of tensors in a file that does not say."""
NEEDED = ("block_count", "embedding_length", "attention.head_count", "attention.head_count_kv")
NUMBERS = (
    *(*NEEDED, "block_size", "context_length", "feed_forward_length"),
    "attention.sliding_window",
)
LISTS = ("target_layers", "attention.sliding_window_pattern")
TOKENS = ("bos", "eos", "eot", "padding", "mask")


@dataclass(frozen=True)
class Tensor:
    name: str
    type: str
    """ggml's name of it, for instance `Q4_K`."""
    shape: Shape
    offset: int
    """Of its first byte in the file."""
    row_bytes: int

    @property
    def bytes(self) -> int:
        return self.row_bytes * prod(self.shape[:-1])


@dataclass(frozen=True)
class Contents:
    headers: Headers
    bytes: int
    """Of the file."""
    tensors: Mapping[str, Tensor]

    @property
    def path(self) -> Path:
        return self.headers.path

    @property
    def architecture(self) -> str:
        return str(self.headers.config.get("general.architecture"))

    @property
    def family(self) -> Family | None:
        """By its tensors; None for a target."""
        if self.architecture != DRAFTER_ARCHITECTURE:
            return None
        return drafter_shape(self.headers).family

    @property
    def needed_bytes(self) -> int:
        """Where its last tensor ends."""
        return max((t.offset + t.bytes for t in self.tensors.values()), default=0)

    def get(self, key: str) -> Any:
        """A value of the architecture, for instance `block_count`; None where there is none."""
        return self.headers.config.get(f"{self.architecture}.{key}")

    def token_id(self, name: str) -> int | None:
        """`bos`, `eos`, `eot`, `padding` or `mask`."""
        return self.headers.config.get(f"tokenizer.ggml.{name}_token_id")

    def rows(self, name: str, numbers: Sequence[int]) -> NDArray[np.float32]:
        """These rows, as they are after dequantising. Reads nothing else."""
        tensor = self.tensors[name]
        kind = GGMLQuantizationType[tensor.type]
        found = []
        with self.path.open("rb") as file:
            for number in numbers:
                file.seek(tensor.offset + number * tensor.row_bytes)
                found.append(np.frombuffer(file.read(tensor.row_bytes), dtype=np.uint8))
        return np.asarray(dequantize(np.stack(found), kind), dtype=np.float32)


def read(path: Path) -> Contents:
    """Raises InputError for what is no GGUF file, or has a damaged header."""
    headers = read_headers(path)
    if headers.format != "gguf":
        raise InputError(
            "is a folder; a GGUF file is wanted.",
            where=str(path),
            fix="Make one with `museorch convert`.",
        )
    tensors = {}
    for name, (kind, offset) in headers.stored.items():
        shape = headers.tensors[name]
        tensors[name] = _tensor(path, name, kind, shape, offset)
    contents = Contents(headers, path.stat().st_size, tensors)
    _check_metadata(contents)
    _check_places(contents)
    return contents


def _check_metadata(contents: Contents) -> None:
    """What is used here is there, and no number is a text."""
    prefix, config = contents.architecture, contents.headers.config
    if prefix not in (TARGET_ARCHITECTURE, DRAFTER_ARCHITECTURE):
        return
    numbers = [f"{prefix}.{key}" for key in NUMBERS]
    numbers += [f"tokenizer.ggml.{name}_token_id" for name in TOKENS]
    wrong = [key for key in numbers if not isinstance(config.get(key), int | None)]
    wrong += [f"{prefix}.{key}" for key in LISTS if not isinstance(contents.get(key), list | None)]
    wrong += [f"{prefix}.{key}" for key in NEEDED if not contents.get(key)]
    layers = contents.get("block_count")
    if not wrong and not 0 < layers <= len(contents.tensors):
        wrong = [f"{prefix}.block_count"]
    if wrong:
        raise InputError(
            f"{wrong[0]} cannot be {config.get(wrong[0])!r}.",
            where=str(contents.path),
            fix="Fetch or convert it again.",
        )


def _check_places(contents: Contents) -> None:
    """Tensors follow each other in the order of their table, as llama.cpp wants them."""
    step = contents.headers.config.get("general.alignment", ALIGNMENT)
    where = str(contents.path)
    if not isinstance(step, int) or step.bit_count() != 1:
        raise InputError(f"general.alignment is {step!r}, no power of two.", where=where)
    for tensor, following in pairwise(contents.tensors.values()):
        end = -(-(tensor.offset + tensor.bytes) // step) * step
        if following.offset != end:
            raise InputError(
                f"the table of tensors is damaged: {following.name} should begin at byte {end:,}, "
                f"after {tensor.name}, and begins at {following.offset:,}.",
                where=where,
                fix="Fetch or convert it again.",
            )


def _tensor(path: Path, name: str, kind: int, shape: Shape, offset: int) -> Tensor:
    try:
        type_ = GGMLQuantizationType(kind)
        block, size = GGML_QUANT_SIZES[type_]
    except (ValueError, KeyError):
        raise InputError(f"{name} is of the unknown type {kind}.", where=str(path)) from None
    width = shape[-1] if shape else 1
    if width % block:
        raise InputError(
            f"{name} has rows of {width}, and {type_.name} has blocks of {block}.", where=str(path)
        )
    return Tensor(name, type_.name, shape, offset, width // block * size)


def vocabulary(path: Path) -> list[str]:
    """The tokens in the order of their ids, as the file writes them."""
    headers = read_headers(path)
    if headers.tokens is None or headers.tokens_at is None:
        return []
    found = []
    with path.open("rb") as file:
        file.seek(headers.tokens_at)
        for _ in range(headers.tokens):
            found.append(file.read(int.from_bytes(file.read(8), "little")))
    try:
        return [token.decode("utf-8") for token in found]
    except UnicodeDecodeError:
        raise InputError("its vocabulary is damaged.", where=str(path)) from None
