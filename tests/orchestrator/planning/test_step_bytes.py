"""Bytes that a step reads, from a GGUF, from safetensors and from a shape: all three agree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from backends.base import Drafter, Weights
from orchestrator.inputs.models import RECIPES
from orchestrator.planning.step_bytes import step_bytes

TINY = RECIPES / "tiny-muse" / "model"
LAYERS = 4 * (256 * 64 * (3 * 4 + 2 * 1) + 3 * 256 * 512)
HEAD = 1024 * 256
BACKBONE = 2 * (256 * 64 * (2 * 4 + 2 * 1) + 3 * 256 * 256) + 2 * 256 * 256
MARKOV = 1024 * 32
NORMS = 0.005
"""Share of a tiny model that norms are, which a shape leaves out."""


def weights(name: str, format_: Literal["hf", "gguf"] = "hf") -> Weights:
    path = TINY / "gguf" / f"{name}-bf16.gguf" if format_ == "gguf" else TINY / name
    return Weights(str(path), format_, "bf16", name)


def drafter(family: Literal["dflash", "dspark"], of: Weights) -> Drafter:
    return Drafter(family, of, 16, 16)


def shape(folder: Path, name: str) -> Weights:
    """As dummy weights lie on disk: a folder without tensors."""
    (folder / name).mkdir()
    text = (TINY / name / "config.json").read_text(encoding="utf-8")
    (folder / name / "config.json").write_text(text, encoding="utf-8")
    return replace(weights(name), path=str(folder / name))


@pytest.mark.parametrize("kind", ["gguf", "hf", "shape"])
def test_a_step_reads_layers_and_head_once(tmp_path: Path, kind: str) -> None:
    def of(name: str) -> Weights:
        if kind == "shape":
            return shape(tmp_path, name)
        return weights(name, "gguf" if kind == "gguf" else "hf")

    target = of("target")
    assert step_bytes(target, None, None) == {
        "target": pytest.approx(2 * (LAYERS + HEAD), rel=NORMS),
        "drafter": 0,
    }
    found = step_bytes(target, drafter("dflash", of("dflash")), 15)
    assert found["drafter"] == pytest.approx(2 * (BACKBONE + HEAD), rel=NORMS)
    found = step_bytes(target, drafter("dspark", of("dspark")), 15)
    assert found["drafter"] == pytest.approx(2 * (BACKBONE + HEAD + 15 * MARKOV), rel=NORMS)


def test_the_30b_reads_53_gb_a_step(tmp_path: Path) -> None:
    for name in ("target", "dflash"):
        (tmp_path / name).mkdir()
        config = RECIPES / "muse-glimmer-30b" / "config" / f"{name}.json"
        (tmp_path / name / "config.json").write_bytes(config.read_bytes())
    target, head = (
        Weights(str(tmp_path / name), "hf", "bf16", name) for name in ("target", "dflash")
    )
    found = step_bytes(target, drafter("dflash", head), 15)
    assert found["target"] == pytest.approx(53.0e9, rel=0.01)
    assert found["drafter"] == pytest.approx(5.11e9 + 2 * 202_048 * 6656, rel=0.01)


def test_what_cannot_be_counted_has_a_reason(tmp_path: Path) -> None:
    nowhere = Weights("org/name", "hf", "bf16", "x")
    assert step_bytes(nowhere, None, None)["reason"].startswith("org/name: no such file")
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    empty = Weights(str(tmp_path), "hf", "bf16", "x")
    assert "does not say num_hidden_layers" in step_bytes(empty, None, None)["reason"]
