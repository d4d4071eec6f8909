"""Quality as a part of a run, on the real llama-server and two copies of the bundled target."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.errors import InputError
from orchestrator.gguf import of_run
from orchestrator.inputs.models import RECIPES
from orchestrator.job import Job, prepare
from orchestrator.rundir import RunDirectory, read_json

GGUF = RECIPES / "tiny-muse" / "model" / "gguf" / "target-bf16.gguf"
TEXT = "def mean(values):\n    return sum(values) / len(values)\n"


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    """A recipe of llama.cpp arms whose second quantisation is another file."""
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    shutil.copyfile(GGUF, tmp_path / "second.gguf")
    model["tokenizer"] = str(RECIPES / model["tokenizer"])
    model["prompts"] = {"demo": str(RECIPES / model["prompts"]["demo"])}
    model["target"]["artefacts"] = [
        {"format": "gguf", "quantisation": "q4_k_m", "path": "second.gguf"},
        {"format": "gguf", "quantisation": "bf16", "path": str(GGUF)},
    ]
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")

    def made(quantisation: list[str], text: str = "text.txt") -> Job:
        recipe: dict[str, Any] = {
            "schema": 1,
            "name": "quality",
            "model": "model.yaml",
            "device": "cpu",
            "workload": {"prompts": "demo", "count": 1},
            "serve": {"threads": 1},
            "arms": [{"backend": "llamacpp", "quantisation": quantisation}],
            "quality": {"text": text, "tokens": 12},
        }
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
        return prepare(str(path))

    return made


def measured(job: Job, run: RunDirectory) -> dict[str, Any]:
    of_run.measure(job.recipe, job.planned, job.path.parent, run, lambda _: None)
    found: dict[str, Any] = read_json(run.quality_file)
    return found


@pytest.mark.engine("llamacpp")
def test_every_quantisation_is_measured_once_against_bf16(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    run = RunDirectory.create(tmp_path / "run")
    found = measured(job(["q4_k_m", "bf16"]), run)
    assert (found["reference"], found["reason"], found["text"]) == ("bf16", None, "text.txt")
    assert [row["quantisation"] for row in found["rows"]] == ["bf16", "q4_k_m"]
    first, second = found["rows"]
    # The second is a copy of the first, so any difference would be the measurement's.
    assert {**first, "quantisation": "q4_k_m"} == second
    assert (first["positions"], first["top1_agreement"], first["divergence"]) == (11, 1.0, 0.0)
    written = run.quality_file.stat().st_mtime_ns
    measured(job(["q4_k_m", "bf16"]), run)
    assert run.quality_file.stat().st_mtime_ns == written, "what is there is kept"


@pytest.mark.engine("llamacpp")
def test_a_failure_is_kept_as_its_reason(job: Callable[..., Job], tmp_path: Path) -> None:
    broken = job(["q4_k_m", "bf16"])
    (tmp_path / "second.gguf").write_bytes(GGUF.read_bytes()[:100_000])
    found = measured(broken, RunDirectory.create(tmp_path / "run"))
    assert "error loading model" in found["reason"]
    assert [row["quantisation"] for row in found["rows"]] == ["bf16"]


def test_some_arms_of_a_recipe_have_nothing_to_compare(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    whole = job(["q4_k_m", "bf16"])
    run = RunDirectory.create(tmp_path / "run")
    for planned in ((), whole.planned[:1]):
        of_run.measure(whole.recipe, planned, whole.path.parent, run, lambda _: None)
    assert not run.quality_file.exists()


def test_what_cannot_be_measured_is_said_before_anything_starts(job: Callable[..., Job]) -> None:
    with pytest.raises(InputError, match="differ in quantisation") as one:
        job(["bf16"])
    assert "recipe.yaml" in str(one.value.where)
    with pytest.raises(InputError, match="no such file"):
        job(["q4_k_m", "bf16"], "nowhere.txt")
