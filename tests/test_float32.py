"""In float32 nothing rounds differently: every engine's tokens and passes are the references'."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.inputs.models import RECIPES
from tests.orchestrator.test_run import MUSEORCH
from tests.test_three_engines import compare, reference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine("llamacpp"),
    pytest.mark.engine("vllm"),
    pytest.mark.engine("sglang"),
]
MODEL = RECIPES / "tiny-muse" / "model"
KV = [word for what in ("k", "v") for word in (f"--cache-type-{what}", "f32")]
KV += [word for what in ("k", "v") for word in (f"--cache-type-{what}-draft", "f32")]
"""SGLang's cache has the model's type anyway, so the recipe leaves kv_dtype alone."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three-engine recipe, shortened, on float32 weights: converted here for llama.cpp."""
    folder = tmp_path_factory.mktemp("float32")
    drafters = ("--drafter", "dflash", "--drafter", "dspark")
    subprocess.run(
        [*MUSEORCH, "convert", "tiny-muse", *drafters, "--quant", "F32", "--out", str(folder)],
        check=True,
        capture_output=True,
    )
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    model["tokenizer"] = str(RECIPES / model["tokenizer"])
    model["prompts"] = {name: str(RECIPES / path) for name, path in model["prompts"].items()}
    for name, part in {"target": model["target"], **model["drafters"]}.items():
        suffix = "" if name == "target" else f"-{name}"
        part["artefacts"] = [
            {"format": "hf", "quantisation": "f32", "path": str(MODEL / name)},
            {
                "format": "gguf",
                "quantisation": "f32",
                "path": str(folder / f"tiny-muse{suffix}-F32.gguf"),
            },
        ]
    (folder / "model.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    data = yaml.safe_load((RECIPES / "tiny-muse" / "three-engines.yaml").read_text("utf-8"))
    data["model"] = "model.yaml"
    data["workload"].update(count=8, output_tokens=64, modes=["greedy"], warmup=0)
    for arm in data["arms"]:
        arm["quantisation"] = "f32"
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def expected(recipe: Path) -> dict[str, dict[str, list[Any]]]:
    return reference(recipe)


@pytest.mark.parametrize(
    ("backend", "speculation", "engine_args"),
    [
        ("llamacpp", ["dflash", "dspark"], KV),
        ("vllm", ["dflash"], []),
        ("sglang", ["dflash", "dspark"], []),
    ],
)
def test_tokens_and_passes_are_the_references(
    tmp_path: Path,
    recipe: Path,
    expected: dict[str, dict[str, list[Any]]],
    backend: str,
    speculation: list[str],
    engine_args: list[str],
) -> None:
    data = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    arm = {"backend": backend, "quantisation": "f32", "draft_tokens": 15}
    data["arms"] = [{**arm, "speculation": speculation, "engine_args": engine_args}]
    data["order"] = {"bookend": False}
    path = recipe.with_name(f"{backend}.yaml")
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    for name, samples in compare(path, tmp_path / "out").items():
        assert [list(s.token_ids) for s in samples] == expected["plain"]["ids"], name
        wanted = expected[name.split("-")[1]]["passes"]
        assert [s.server and s.server.steps for s in samples] == wanted, name
