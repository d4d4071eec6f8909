"""A fingerprint changes with the weights and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.base import Weights
from orchestrator.planning.weight_files import fingerprint


def folder(path: Path) -> Weights:
    """A small sharded checkpoint: a header, then 200 KB of zeros in each shard."""
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "muse_glimmer"}')
    for number in (1, 2):
        header = json.dumps({f"w{number}": {"dtype": "BF16", "shape": [100_000]}}).encode()
        data = len(header).to_bytes(8, "little") + header + bytes(200_000)
        (path / f"model-{number}.safetensors").write_bytes(data)
    return Weights(str(path), "hf", "bf16", "tiny")


def test_a_copy_elsewhere_has_the_same_fingerprint(tmp_path: Path) -> None:
    first = fingerprint(folder(tmp_path / "a"))
    assert first == fingerprint(folder(tmp_path / "b"))
    assert first.split()[0] == "hf"
    assert len(first.split()[1]) == 32


@pytest.mark.parametrize(
    ("file", "offset", "new"),
    [
        ("config.json", 17, b"MUSE"),
        ("model-1.safetensors", 12, b"v"),  # a tensor's name
        ("model-2.safetensors", -1, b"\x01"),  # the last byte
        ("model-2.safetensors", 100_000, b"\x01" * 4096),  # fine-tuned: same shapes, other numbers
        ("model-2.safetensors", 200_200, b"\x00" * 4096),  # longer
    ],
)
def test_another_checkpoint_has_another(tmp_path: Path, file: str, offset: int, new: bytes) -> None:
    weights = folder(tmp_path / "a")
    before = fingerprint(weights)
    path = tmp_path / "a" / file
    with path.open("r+b") as stream:
        stream.seek(offset, 2 if offset < 0 else 0)
        stream.write(new)
    assert fingerprint(weights) != before


def test_what_is_not_weights_does_not_count(tmp_path: Path) -> None:
    weights = folder(tmp_path / "a")
    before = fingerprint(weights)
    (tmp_path / "a" / "README.md").write_text("hello")
    assert fingerprint(weights) == before


def test_a_gguf_file_by_its_content_and_not_its_name(tmp_path: Path) -> None:
    def weights(name: str, data: bytes) -> Weights:
        (tmp_path / name).write_bytes(data)
        return Weights(str(tmp_path / name), "gguf", "q4_k_m", "tiny")

    data = b"GGUF" + bytes(100_000)
    one = fingerprint(weights("one.gguf", data))
    assert one.startswith("gguf ")
    assert fingerprint(weights("two.gguf", data)) == one
    assert fingerprint(weights("one.gguf", data[:-1] + b"\x01")) != one
    assert fingerprint(weights("short.gguf", b"GG")) != one


def test_weights_of_the_hub_are_read_from_its_cache_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hub = Weights("org/name", "hf", "bf16", "tiny")
    assert fingerprint(hub) == "hf org/name, not hashed"
    cached = tmp_path / "hub" / "models--org--name"
    (cached / "snapshots").mkdir(parents=True)
    folder(cached / "snapshots" / "abc")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    assert fingerprint(hub) == fingerprint(folder(tmp_path / "copy"))
    shard = Weights("org/name/model-1.safetensors", "hf", "bf16", "tiny")
    assert "not hashed" not in fingerprint(shard)
