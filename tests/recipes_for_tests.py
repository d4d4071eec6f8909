"""Small recipes and models written for a test."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.fakes import FAKE_ENGINE

SHIM = """#!{python} -ISs
import os, re, sys
if "--version" in sys.argv:
    print("version: 1 (0a1b2c3)")
    sys.exit()
if "--model-draft" not in sys.argv:  # one variable for both arms, since arms may not differ in it
    os.environ["FAKE_ENGINE"] = re.sub(r"--accept \\S+", "", os.environ.get("FAKE_ENGINE", ""))
engine = [sys.executable, "-I", "-S", {fake!r}, "--format", "llamacpp"]
os.execv(sys.executable, engine + sys.argv[1:])
"""

DRAFTING = "--accept 3,0,2 --draft-tokens 7 --delay 0.002"
"""Steps that do not take any time would arrive together, and tell no speed."""


def write_model(folder: Path) -> Path:
    """A model whose files exist and hold nothing, for engines that do not read them."""
    for name in ("target.gguf", "dflash.gguf", "dspark.gguf"):
        (folder / name).touch()
    for name in ("target", "dflash", "dspark"):
        (folder / name).mkdir()
    drafter = {"block_size": 8, "target_layer_ids": [0, 1]}

    def artefacts(name: str) -> list[dict[str, str]]:
        return [
            {"format": "hf", "quantisation": "bf16", "path": name},
            {"format": "gguf", "quantisation": "bf16", "path": f"{name}.gguf"},
        ]

    model = {
        "schema": 1,
        "name": "toy",
        "title": "Toy",
        "licence": "Apache-2.0",
        "vocab_size": 100,
        "max_context": 256,
        "tokens": {"bos": 0, "end": [1, 2], "pad": 3, "mask": 4},
        "target": {"identity": "toy", "artefacts": artefacts("target")},
        "drafters": {
            "dflash": {
                **drafter,
                "identity": "toy-dflash",
                "max_draft_tokens": 7,
                "artefacts": artefacts("dflash"),
            },
            "dspark": {
                **drafter,
                "identity": "toy-dspark",
                "max_draft_tokens": 8,
                "sample_from_anchor": False,
                "artefacts": artefacts("dspark"),
            },
        },
    }
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(model), encoding="utf-8")
    return path


def write_prompts(folder: Path, count: int) -> Path:
    path = folder / "prompts.jsonl"
    rows = [{"id": f"p{n}", "token_ids": [0, 10 + n, 20]} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_server(folder: Path) -> Path:
    """The fake engine in the place of llama-server."""
    path = folder / "llama-server"
    path.write_text(SHIM.format(python=sys.executable, fake=str(FAKE_ENGINE)), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def recipe_data(folder: Path, *, prompts: int = 6, **changes: Any) -> dict[str, Any]:
    """A recipe for llama.cpp arms served by the fake engine; write it with write_recipe."""
    write_model(folder)
    write_prompts(folder, prompts)
    data: dict[str, Any] = {
        "schema": 1,
        "name": "toy",
        "model": "toy.yaml",
        "device": "cpu",
        "engines": {"llamacpp": {"executable": str(write_server(folder))}},
        "workload": {
            "prompts": "prompts.jsonl",
            "count": prompts,
            "output_tokens": 12,
            "stop": "fixed",
            "modes": ["greedy"],
            "warmup": 1,
        },
        "serve": {"context_length": 64},
        "arms": [
            {"backend": "llamacpp", "env": {"FAKE_ENGINE": DRAFTING}},
            {"backend": "llamacpp", "speculation": "dflash", "env": {"FAKE_ENGINE": DRAFTING}},
        ],
    }
    return {**data, **changes}


def write_recipe(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path
