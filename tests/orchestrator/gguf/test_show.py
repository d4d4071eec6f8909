from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from gguf import GGUFReader

from orchestrator.gguf.contents import read
from orchestrator.gguf.show import lines, summary
from tests.orchestrator.gguf.edited import DFLASH, DSPARK, TARGET
from tests.orchestrator.test_run import MUSEORCH


def test_offsets_and_sizes_are_those_the_gguf_package_finds() -> None:
    found = read(DSPARK)
    for tensor in GGUFReader(DSPARK).tensors:
        mine = found.tensors[tensor.name]
        assert (mine.type, mine.offset, mine.bytes) == (
            tensor.tensor_type.name,
            tensor.data_offset,
            tensor.n_bytes,
        )
    assert found.needed_bytes == found.bytes


@pytest.mark.parametrize(
    ("path", "family", "layers"), [(DFLASH, "dflash", [1, 3]), (DSPARK, "dspark", [1, 3])]
)
def test_a_drafter(path: Path, family: str, layers: list[int]) -> None:
    found = summary(read(path))
    assert found["family"] == family
    assert found["target_layers"] == layers
    assert (found["block_size"], found["draft_tokens"]) == (16, 15)
    assert found["sample_from_anchor"] is (None if family == "dflash" else False)
    assert found["sliding_window_pattern"] == [True, True]
    assert found["tokens"] == {"bos": 0, "end": [1, 2], "pad": 3, "mask": 4, "eot": 2}


def test_bytes_per_token_are_all_weights_but_one_row_of_a_table() -> None:
    contents = read(TARGET)
    every = sum(tensor.bytes for tensor in contents.tensors.values())
    table = contents.tensors["token_embd.weight"]
    assert summary(contents)["bytes_per_token"] == every - table.bytes + 256 * 2
    classes = {row["class"]: row for row in summary(contents)["quantisation"]}
    assert classes["token embeddings"]["bytes"] == table.bytes == 1024 * 256 * 2
    assert set(classes["norms"]["types"]) == {"F32"}
    assert "other" not in classes


def test_the_command_says_the_same() -> None:
    done = subprocess.run(
        [*MUSEORCH, "gguf", "show", str(DSPARK), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == summary(read(DSPARK))
    text = "\n".join(lines(summary(read(DSPARK))))
    assert "dflash, dspark" in text
    assert "anchor drafts    False" in text
