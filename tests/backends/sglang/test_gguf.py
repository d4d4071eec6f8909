"""GGUF targets: what SGLang 0.5.23 did with them decides what is launched and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import yaml

from backends.base import Device, ServeSpec, Weights
from backends.sglang.launch import SGLANG
from orchestrator.inputs.models import RECIPES
from tests.backends.sglang.test_launch import PLAIN, after, drafted
from tests.test_three_engines import compare


def on(
    spec: ServeSpec, quantisation: str, device: Device, drafter: Literal["hf", "gguf"] = "hf"
) -> ServeSpec:
    target = Weights("/models/target.gguf", "gguf", quantisation, "toy")
    spec = replace(spec, target=target, device=device)
    if spec.drafter is not None and drafter == "gguf":
        weights = Weights("/models/drafter.gguf", "gguf", "bf16", "drafter")
        spec = replace(spec, drafter=replace(spec.drafter, weights=weights))
    return spec


def refused(spec: ServeSpec) -> set[str]:
    return {f.code for f in SGLANG.plan(spec).findings if f.level == "error"}


def test_the_load_format_is_named_and_no_tokenizer_is_wanted() -> None:
    plan = SGLANG.plan(on(PLAIN, "q4_k_m", "cuda"))
    assert after(plan.argv, "--load-format") == after(plan.argv, "--quantization") == "gguf"
    assert "--skip-tokenizer-init" in plan.argv
    assert "--language-model-only" not in plan.argv
    served = SGLANG.plan(replace(on(PLAIN, "q4_k_m", "cuda"), purpose="serve"))
    assert "--skip-tokenizer-init" not in served.argv


def test_the_drafter_inherits_neither_format_nor_quantisation() -> None:
    argv = SGLANG.plan(on(drafted("dflash", 15), "q4_k_m", "cuda")).argv
    assert after(argv, "--speculative-draft-load-format") == "auto"
    assert after(argv, "--speculative-draft-model-quantization") == "unquant"
    assert "--speculative-draft-model-quantization" not in SGLANG.plan(drafted("dflash", 15)).argv


def test_bf16_files_need_a_patch() -> None:
    assert "sglang-gguf-bf16" in SGLANG.plan(on(PLAIN, "bf16", "cuda")).patches
    assert "sglang-gguf-bf16" not in SGLANG.plan(on(PLAIN, "q4_k_m", "cuda")).patches
    assert "sglang-gguf-bf16" not in SGLANG.plan(PLAIN).patches


def test_dflash_in_another_type_than_bf16_needs_a_patch() -> None:
    assert "sglang-draft-dtype" in SGLANG.plan(on(drafted("dflash", 15), "f16", "cpu")).patches
    assert "sglang-draft-dtype" not in SGLANG.plan(on(drafted("dflash", 15), "bf16", "cpu")).patches
    assert "sglang-draft-dtype" not in SGLANG.plan(on(PLAIN, "f16", "cpu")).patches


@pytest.mark.parametrize(
    ("spec", "codes"),
    [
        (on(PLAIN, "q4_k_m", "cuda"), set()),
        (on(PLAIN, "bf16", "cpu"), set()),
        (on(PLAIN, "f16", "cpu"), set()),
        (on(PLAIN, "q8_0", "cpu"), {"gguf-kernels"}),
        (on(drafted("dflash", 15), "bf16", "cpu"), set()),
        (on(drafted("dflash", 15), "q4_k_m", "cuda"), set()),
        (on(drafted("dflash", 15), "f16", "cpu"), set()),
        (on(drafted("dflash", 15), "bf16", "cpu", "gguf"), {"gguf-drafter"}),
        (on(drafted("dspark", 15), "q4_k_m", "cuda"), {"gguf-dspark"}),
        (drafted("dspark", 15), set()),
    ],
)
def test_what_does_not_work_is_refused_with_the_reason(spec: ServeSpec, codes: set[str]) -> None:
    assert refused(spec) == codes


@pytest.mark.slow
@pytest.mark.engine("sglang")
def test_a_bf16_file_gives_what_its_checkpoint_gives(tmp_path: Path) -> None:
    found = {}
    for format_ in ("hf", "gguf"):
        folder = tmp_path / format_
        folder.mkdir()
        model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text("utf-8"))
        model["target"]["artefacts"] = [
            a for a in model["target"]["artefacts"] if a["format"] == format_ and "path" in a
        ]
        for part in (model["target"], *model["drafters"].values()):
            for artefact in part["artefacts"]:
                if "path" in artefact:
                    artefact["path"] = str(RECIPES / artefact["path"])
        model["tokenizer"] = str(RECIPES / model["tokenizer"])
        model["prompts"] = {"demo": str(RECIPES / model["prompts"]["demo"])}
        (folder / "model.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
        shipped = RECIPES / "tiny-muse" / "three-engines.yaml"
        recipe = yaml.safe_load(shipped.read_text(encoding="utf-8"))
        recipe["model"] = "model.yaml"
        recipe["workload"].update(count=4, output_tokens=48, modes=["greedy"], warmup=0)
        recipe["arms"] = [{"backend": "sglang", "speculation": ["none", "dflash"]}]
        recipe["order"] = {"bookend": False}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
        arms = compare(folder / "recipe.yaml", folder / "out")
        for arm, samples in arms.items():
            found[format_, arm] = [sample.token_ids for sample in samples]
        assert all(s.server and s.server.accepted for s in arms["sglang-dflash"])
    assert found["gguf", "sglang-base"] == found["hf", "sglang-base"]
    assert found["gguf", "sglang-dflash"] == found["gguf", "sglang-base"]
