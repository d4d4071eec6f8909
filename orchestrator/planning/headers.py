"""The headers of a checkpoint: its config, and the names and shapes of its tensors.

Reads a folder of Hugging Face files or a GGUF file. No weights are read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from backends.errors import InputError

Shape = tuple[int, ...]

_MAX_HEADER = 512 * 1024 * 1024
_MAX_DIMENSIONS = 4
_GGUF_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_GGUF_STRING, _GGUF_ARRAY = 8, 9


@dataclass(frozen=True)
class Headers:
    path: Path
    format: Literal["hf", "gguf"]
    config: Mapping[str, Any]
    """config.json, or GGUF metadata. Long GGUF arrays are left out; `tokens` counts the one."""
    tensors: Mapping[str, Shape]
    """Outermost dimension first, as PyTorch has it."""
    tokens: int | None = None
    """Number of tokens of the vocabulary inside a GGUF."""
    stored: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of a GGUF's tensors: number of the ggml type, and where in the file the values begin."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the tensors of Hugging Face files."""
    tokens_at: int | None = None
    """Where in a GGUF the tokens begin, each with 8 bytes of length before it."""


def read_headers(path: Path) -> Headers:
    """Raises InputError for what is neither, or is damaged."""
    if path.is_dir():
        return _hf(path)
    if not path.exists():
        raise InputError("no such file or folder.", where=str(path))
    with _opened(path) as file:
        if file.read(4) != b"GGUF":
            raise InputError(
                "neither a folder of Hugging Face files nor a GGUF file.", where=str(path)
            )
        try:
            return _gguf(path, file)
        except (
            *(struct.error, ValueError, KeyError, TypeError, ZeroDivisionError, MemoryError),
            *(OSError, OverflowError),  # seeking to where an absurd count leads
        ):
            raise InputError("this GGUF file is damaged or cut off.", where=str(path)) from None


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from None


def _hf(folder: Path) -> Headers:
    config = json_object(folder / "config.json")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError("has no .safetensors file.", where=str(folder))
    tensors: dict[str, Shape] = {}
    sizes: dict[str, int] = {}
    for file in files:
        for name, (shape, size) in _safetensors(file).items():
            tensors[name], sizes[name] = shape, size
    return Headers(folder, "hf", config, tensors, sizes=sizes)


def json_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object, such as config.json. InputError where it does not."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from None
    except ValueError as error:
        raise InputError(f"is not JSON ({error}).", where=str(path)) from None
    if not isinstance(config, dict):
        raise InputError("is not a JSON object.", where=str(path))
    return config


def _safetensors(path: Path) -> dict[str, tuple[Shape, int]]:
    """Shapes and bytes. The header: 8 bytes of length, then JSON."""
    with _opened(path) as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > _MAX_HEADER:
            raise InputError("is not a safetensors file.", where=str(path))
        try:
            header = json.loads(file.read(length))
            return {
                name: (_shape(entry["shape"]), entry["data_offsets"][1] - entry["data_offsets"][0])
                for name, entry in header.items()
                if name != "__metadata__"
            }
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise InputError("its safetensors header is damaged.", where=str(path)) from None


def _shape(sizes: Any) -> Shape:
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError
    return tuple(sizes)


def _gguf(path: Path, file: BinaryIO) -> Headers:
    version, tensors, keys = _unpack(file, "<IQQ")
    if version not in (2, 3):
        raise InputError(f"GGUF version {version} is not known.", where=str(path))
    config: dict[str, Any] = {}
    tokens, tokens_at = None, None
    for _ in range(keys):
        key = _string(file)
        if key in config:
            raise ValueError
        kind = _one(file, "<I")
        if kind == _GGUF_ARRAY:
            inner, count = _unpack(file, "<IQ")
            if key == "tokenizer.ggml.tokens" and inner == _GGUF_STRING:
                tokens, tokens_at = count, file.tell()
            values = _array(file, inner, count)
            if values is not None:
                config[key] = values
        else:
            config[key] = _value(file, kind)
    shapes: dict[str, Shape] = {}
    stored: dict[str, tuple[int, int]] = {}
    for _ in range(tensors):
        name = _string(file)
        dimensions = _one(file, "<I")
        if name in shapes or dimensions > _MAX_DIMENSIONS:
            raise ValueError
        shapes[name] = tuple(reversed(_unpack(file, f"<{dimensions}Q")))
        kind, offset = _unpack(file, "<IQ")
        stored[name] = kind, offset
    alignment = config.get("general.alignment", 32)
    start = -(-file.tell() // alignment) * alignment
    places = {name: (kind, start + offset) for name, (kind, offset) in stored.items()}
    return Headers(path, "gguf", config, shapes, tokens, places, tokens_at=tokens_at)


def _array(file: BinaryIO, kind: int, count: int) -> list[Any] | None:
    """The values, or None where there are many: vocabularies are skipped."""
    if count <= 1024 and kind != _GGUF_STRING:
        return [_value(file, kind) for _ in range(count)]
    if kind == _GGUF_STRING:
        for _ in range(count):
            file.seek(_one(file, "<Q"), 1)
    else:
        file.seek(count * struct.calcsize(_GGUF_SCALARS[kind]), 1)
    return None


def _value(file: BinaryIO, kind: int) -> Any:
    return _string(file) if kind == _GGUF_STRING else _one(file, _GGUF_SCALARS[kind])


def _string(file: BinaryIO) -> str:
    length = _one(file, "<Q")
    if length > _MAX_HEADER:
        raise OverflowError
    content = file.read(length)
    if len(content) < length:
        raise struct.error
    return content.decode("utf-8")


def _one(file: BinaryIO, layout: str) -> Any:
    return _unpack(file, layout)[0]


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
