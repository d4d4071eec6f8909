"""Files whose bytes are damaged: one clear error each, from the header alone."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from backends.errors import InputError
from orchestrator.convert import manifest
from orchestrator.gguf.contents import read, vocabulary
from orchestrator.gguf.show import lines, summary
from orchestrator.gguf.stored import stored_tensors
from orchestrator.gguf.verify import verify
from tests.orchestrator.gguf.edited import DFLASH, DSPARK, TARGET, TINY, edited
from tests.orchestrator.gguf.test_verify import errors

U32, F32 = 4, 6
"""Of GGUF's types of values, both of 4 bytes."""


def damaged(path: Path, change: Callable[[bytearray], None], source: Path = DFLASH) -> Path:
    content = bytearray(source.read_bytes())
    change(content)
    path.write_bytes(content)
    return path


def after(content: bytearray, name: str) -> int:
    """Where what follows a key, or a tensor's name, begins."""
    words = struct.pack("<Q", len(name)) + name.encode()
    assert content.count(words) == 1
    return content.index(words) + len(words)


def tensor(name: str, place: int, layout: str, value: int) -> Callable[[bytearray], None]:
    """Write over what the table says of a matrix. 4: its width, 20: its type, 24: its offset."""
    return lambda content: struct.pack_into(layout, content, after(content, name) + place, value)


def as_float(key: str) -> Callable[[bytearray], None]:
    return lambda content: struct.pack_into("<I", content, after(content, key), F32)


def number(key: str, value: int) -> Callable[[bytearray], None]:
    return lambda content: struct.pack_into("<II", content, after(content, key), U32, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (tensor("blk.0.ffn_up.weight", 24, "<Q", 0), "ffn_up.* should begin at byte"),
        (tensor("blk.0.ffn_up.weight", 24, "<Q", 1 << 40), "ffn_up.* should begin at byte"),
        (tensor("blk.0.ffn_up.weight", 4, "<Q", 512), "after blk.0.ffn_up.weight, and begins"),
        (tensor("blk.0.ffn_up.weight", 4, "<Q", 1 << 62), "after blk.0.ffn_up.weight, and begins"),
        (tensor("blk.0.ffn_up.weight", 20, "<I", 99), "ffn_up.weight is of the unknown type 99"),
        (tensor("blk.0.ffn_up.weight", 20, "<I", 12), "should begin at byte"),
        (as_float("dflash.block_count"), "dflash.block_count cannot be"),
        (as_float("dflash.block_size"), "dflash.block_size cannot be"),
        (as_float("tokenizer.ggml.mask_token_id"), "mask_token_id cannot be"),
        (number("dflash.block_count", 0xFFFFFFFF), "block_count cannot be 4294967295"),
        (number("dflash.attention.head_count", 0), "head_count cannot be 0"),
        (lambda content: struct.pack_into("<Q", content, 8, 1 << 63), "damaged or cut off"),
        (lambda content: struct.pack_into("<Q", content, 16, 1 << 63), "damaged or cut off"),
    ],
)
def test_a_damaged_header_is_named(
    tmp_path: Path, change: Callable[[bytearray], None], message: str
) -> None:
    path = damaged(tmp_path / "bad.gguf", change)
    with pytest.raises(InputError, match=message):
        read(path)


@pytest.mark.parametrize("alignment", [0x30, 1 << 31])
def test_an_alignment_that_does_not_fit(tmp_path: Path, alignment: int) -> None:
    path = tmp_path / "bad.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_uint32("general.alignment", alignment)
    for name in ("a", "b"):
        writer.add_tensor(name, np.zeros((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match=r"no power of two|should begin at byte"):
        read(path)


def test_a_token_that_is_no_text(tmp_path: Path) -> None:
    def change(content: bytearray) -> None:
        content[content.index(b"<|end_of_text|>")] = 0xFF

    path = damaged(tmp_path / "bad.gguf", change)
    with pytest.raises(InputError, match="its vocabulary is damaged"):
        vocabulary(path)


def test_a_file_that_is_not_what_its_manifest_says(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    shutil.copyfile(DFLASH, path)
    manifest.path_of(path).write_text(json.dumps({"sha256": manifest.sha256(DFLASH)}))
    assert not errors(verify(path))
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert "mine.gguf.json describes" in errors(verify(path))["manifest"]


def test_a_target_without_its_output_head(tmp_path: Path) -> None:
    """llama.cpp would use the embeddings in its place."""
    bad = edited(TARGET, tmp_path / "bad.gguf", without=["output.weight"])
    text = errors(verify(bad, source=TINY / "target"))["source-values"]
    assert "lm_head.weight of the source is not in it" in text


def test_a_target_with_another_tokenizer(tmp_path: Path) -> None:
    tokens = vocabulary(TARGET)
    tokens[700], tokens[701] = tokens[701], tokens[700]
    bad = edited(TARGET, tmp_path / "bad.gguf", values={"tokenizer.ggml.tokens": tokens})
    text = errors(verify(bad, source=TINY / "target"))["tokenizer"]
    assert text.startswith(f"Token 700 is {tokens[700]!r} in the file")


def test_show_says_that_a_file_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(DSPARK.read_bytes()[:-100])
    size = DSPARK.stat().st_size
    assert f"{size - 100:,} bytes, cut off: {size:,} are needed" in "\n".join(
        lines(summary(read(path)))
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [4, 4], "data_offsets": [0, 32]}, "header is damaged"),
        ({"dtype": "BF16", "shape": [4, "4"], "data_offsets": [0, 32]}, "header is damaged"),
        ({"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 30]}, "header is damaged"),
        ({"dtype": "BF16", "shape": [4, 4], "data_offsets": [-32, 0]}, "header is damaged"),
        ({"dtype": "BF16", "shape": [4, 4], "data_offsets": [0]}, "header is damaged"),
        ({"dtype": "BF16", "shape": [1 << 62], "data_offsets": [0, 1 << 63]}, "is cut off"),
        ([], "header is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, entry: object, message: str) -> None:
    text = json.dumps({"a.weight": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(32))
    with pytest.raises(InputError, match=rf"model\.safetensors: .*{message}"):
        stored_tensors(tmp_path)


@pytest.mark.parametrize("change", [{"text_config": 1}, {"text_config": {"layer_types": 1}}])
def test_a_source_whose_config_describes_nothing(tmp_path: Path, change: dict[str, object]) -> None:
    shutil.copytree(TINY / "target", tmp_path / "target")
    (tmp_path / "target" / "config.json").write_text(json.dumps(change))
    with pytest.raises(InputError, match=r"config\.json: describes no layers"):
        verify(TARGET, source=tmp_path / "target")
