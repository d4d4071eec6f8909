"""Damaged headers: an error that museorch expects, and never another."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from backends.base import Weights
from backends.errors import InputError, MuseorchError
from orchestrator.gguf.contents import read, vocabulary
from orchestrator.gguf.show import lines, summary
from orchestrator.inputs.models import RECIPES
from orchestrator.planning.headers import read_headers
from orchestrator.planning.lint import lint
from orchestrator.planning.weight_files import fingerprint

TINY = RECIPES / "tiny-muse" / "model"
WRONG: tuple[Any, ...] = (None, -1, 1.5, 1 << 70, "x", [], [None], {}, {"a": 1}, [[1]])


def test_any_damage_of_a_gguf_header_is_an_expected_error(tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "bad.gguf"
    for name in ("target", "dspark"):
        source = TINY / "gguf" / f"{name}-bf16.gguf"
        whole = source.read_bytes()
        header = min(place for _, place in read_headers(source).stored.values())
        refused = 0
        for _ in range(100):
            content = bytearray(whole[: header + 1000])
            place = rng.randrange(4000) if rng.random() < 0.5 else rng.randrange(header)
            value = rng.choice((0, 1, 1 << 31, 1 << 63, (1 << 64) - 1)).to_bytes(8, "little")
            content[place : place + rng.choice((1, 4, 8))] = value[-rng.choice((1, 4, 8)) :]
            path.write_bytes(content)
            try:
                list(lines(summary(read(path))))
                vocabulary(path)
            except MuseorchError:
                refused += 1
        assert refused > 30


def test_any_damage_of_a_config_is_an_expected_error(tmp_path: Path) -> None:
    shutil.copytree(TINY / "target", tmp_path / "target")
    shutil.copytree(TINY / "dspark", tmp_path / "dspark")
    for name in ("target", "dspark"):
        file = tmp_path / name / "config.json"
        whole = file.read_text()
        config = json.loads(whole)
        text = config.get("text_config", config)
        for part in (config, text):
            for key in list(part):
                for value in WRONG:
                    before, part[key] = part[key], value
                    file.write_text(json.dumps(config))
                    part[key] = before
                    try:
                        lint(tmp_path / "dspark", tmp_path / "target")
                    except MuseorchError:
                        continue
        file.write_text(whole)


def test_a_tensor_that_is_there_twice(tmp_path: Path) -> None:
    whole = (TINY / "gguf" / "dspark-bf16.gguf").read_bytes()
    path = tmp_path / "bad.gguf"
    path.write_bytes(whole.replace(b"blk.0.attn_k.weight", b"blk.0.attn_q.weight"))
    with pytest.raises(InputError, match="damaged or cut off"):
        read_headers(path)


def test_files_beside_a_checkpoint_do_not_count(tmp_path: Path) -> None:
    """As `museorch convert --out` may put them there."""
    shutil.copytree(TINY / "dspark", tmp_path / "dspark")
    weights = Weights(str(tmp_path / "dspark"), "hf", "bf16", "x")
    before = fingerprint(weights)
    (tmp_path / "dspark" / "x.gguf").write_bytes(b"GGUF")
    assert fingerprint(weights) == before
