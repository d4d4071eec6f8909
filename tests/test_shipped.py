"""What is shipped is right: recipes, models, schemas, and the bundled checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from backends import BACKENDS
from orchestrator.inputs.library import SCHEMA_FILE, recipe_schema, shipped_paths
from orchestrator.inputs.models import RECIPES, load_model, model_names
from orchestrator.job import prepare

TINY = RECIPES / "tiny-muse" / "model"
MAX_BYTES = 20_000_000


def test_the_committed_recipe_schema_is_current() -> None:
    """`museorch recipes schema > recipes/recipe.schema.json` makes it so."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == recipe_schema()


@pytest.mark.parametrize("path", shipped_paths(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_shipped_recipe_is_valid_and_can_be_planned(path: Path) -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)
    job = prepare(str(path))
    assert job.planned
    for item in job.planned:
        assert not [f for f in item.plan.findings if f.level == "error"]


@pytest.mark.parametrize("name", model_names())
def test_a_shipped_model_is_valid(name: str) -> None:
    loaded = load_model(name, Path())
    assert loaded.model.name == name


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TINY / name / "config.json").read_text(encoding="utf-8"))
    return found


def test_the_declared_shapes_are_those_of_the_checkpoints() -> None:
    model = load_model("tiny-muse", Path()).model
    assert model.vocab_size == config("target")["text_config"]["vocab_size"]
    for family in ("dflash", "dspark"):
        declared, found = model.drafters[family], config(family)
        assert declared.block_size == found["block_size"]
        assert declared.target_layer_ids == found["target_layer_ids"]
        assert declared.sample_from_anchor == found.get("sample_from_anchor")
    generation = json.loads((TINY / "target" / "generation_config.json").read_text("utf-8"))
    assert model.tokens.end == generation["eos_token_id"]


def test_the_ggufs_hold_the_same_drafters() -> None:
    from gguf import GGUFReader

    for family in ("dflash", "dspark"):
        reader = GGUFReader(TINY / "gguf" / f"{family}-bf16.gguf")
        fields = {name: field.contents() for name, field in reader.fields.items()}
        assert fields["general.architecture"] == "dflash"
        assert fields["dflash.block_size"] == config(family)["block_size"]
        # GGUF names the layer whose input is read: the next one.
        assert fields["dflash.target_layers"] == [i + 1 for i in config(family)["target_layer_ids"]]
        assert any("markov" in tensor.name for tensor in reader.tensors) == (family == "dspark")


def test_the_bundle_is_small() -> None:
    assert sum(path.stat().st_size for path in TINY.rglob("*") if path.is_file()) < MAX_BYTES


def test_the_demo_is_what_the_readme_promises() -> None:
    job = prepare("tiny-muse/demo")
    assert [arm.id for arm in job.arms] == [
        "llamacpp-base",
        "llamacpp-dflash",
        "llamacpp-dspark",
        "vllm-base",
        "vllm-dflash",
    ]
    assert [mode.name for mode in job.recipe.workload.modes] == ["greedy", "temperature"]
    assert len(job.prompts) >= 24
    assert job.recipe.workload.output_tokens == 128


def test_a_plan_binds_to_this_machine_and_trusts_no_remote_code() -> None:
    for path in shipped_paths():
        for item in prepare(str(path)).planned:
            argv = item.plan.argv
            assert argv[argv.index("--host") + 1] == "127.0.0.1"
            assert "--trust-remote-code" not in argv
            assert item.arm.backend in BACKENDS
