"""Which weights were served: a short fingerprint of their files, without reading all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from backends.base import Weights
from orchestrator.inputs import hub

GGUF_HEAD = 16 << 20
"""More than the header of a GGUF with a vocabulary of 200,000 tokens."""
BLOCKS = 64
BLOCK = 4096


def fingerprint(weights: Weights) -> str:
    """`hf 1f0c...`: format and sha256 over config, headers, sizes and blocks spread over each file.

    Shapes and sizes alone would not tell a fine-tuned checkpoint from the one it came from.
    Weights of the hub that are not in the local cache are named instead: `hf org/name, not hashed`.
    """
    path = _located(weights.path)
    if path is None:
        return f"{weights.format} {weights.path}, not hashed"
    digest = hashlib.sha256()
    for file in sorted(_files(path)):
        digest.update(f"{file.name if path.is_dir() else ''}\0".encode())
        for part in _parts(file):
            digest.update(part)
    return f"{weights.format} {digest.hexdigest()[:32]}"


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [*path.glob("*.safetensors"), *path.glob("config.json")]
    return [path]


def _parts(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield size.to_bytes(8, "little")
    with path.open("rb") as file:
        start = file.read(8)
        if path.suffix == ".json":
            head = size
        elif start[:4] == b"GGUF":
            head = GGUF_HEAD
        else:
            head = 8 + int.from_bytes(start, "little")
        yield start + file.read(max(0, min(head, size) - len(start)))
        for number in range(BLOCKS):
            file.seek(number * max(0, size - BLOCK) // (BLOCKS - 1))
            yield file.read(BLOCK)


def _located(name: str) -> Path | None:
    """A path as it is; `org/name` or `org/name/file` in the cache of the hub's own tools."""
    if Path(name).exists():
        return Path(name)
    owner, _, rest = name.partition("/")
    repository, _, file = rest.partition("/")
    return hub.cached(f"{owner}/{repository}", file or None)
