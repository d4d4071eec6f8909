"""The shipped bridge on real engines: converted, served, split, its quality measured.

Slow: it converts tiny-muse's target and starts vLLM twice.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml

from orchestrator.environments.engines import cache_root
from orchestrator.inputs.models import RECIPES
from tests.orchestrator.test_run import MUSEORCH, SCHEMA, leftovers

pytestmark = [pytest.mark.slow, pytest.mark.engine("llamacpp"), pytest.mark.engine("vllm")]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bridge")
    home = folder / "cache"
    home.mkdir()
    (home / "engines").symlink_to(cache_root() / "engines")
    recipe = yaml.safe_load((RECIPES / "tiny-muse" / "bridge.yaml").read_text(encoding="utf-8"))
    recipe["workload"].update(count=8, output_tokens=48)
    recipe["quality"].update(text=str(RECIPES / "quality.txt"), tokens=32)
    recipe["arms"] = [
        {"backend": "vllm"},
        {"backend": "llamacpp", "quantisation": ["bf16", "q8_0", "q4_k_m"]},
    ]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")

    def museorch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*MUSEORCH, *words],
            env={**os.environ, "MUSEORCH_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
            cwd=folder,
        )

    missing = museorch("compare", "recipe.yaml", "--out", "out")
    assert missing.returncode == 1, missing.stderr
    command = (
        "museorch convert tiny-muse --drafter dflash --drafter dspark --quant Q8_0,Q6_K,Q4_K_M"
    )
    assert command in missing.stderr
    made = museorch("convert", "tiny-muse", "--quant", "Q8_0,Q4_K_M")
    assert made.returncode == 0, made.stderr
    done = museorch("compare", "recipe.yaml", "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not leftovers(folder / "out")
    found: dict[str, Any] = json.loads((folder / "out" / "result.json").read_text("utf-8"))
    jsonschema.validate(found, SCHEMA)
    return found


def test_each_quantisation_is_split_from_the_engine(result: dict[str, Any]) -> None:
    rows = {row["a"]: row for row in result["bridges"]}
    assert set(rows) == {"llamacpp-base-q8_0", "llamacpp-base-q4_k_m"}
    for row in rows.values():
        assert row["reason"] is None
        assert (row["b"], row["via"]) == ("vllm-base", "llamacpp-base-bf16")
        whole, engine, quantisation = (
            row[name]["ratio"] for name in ("whole", "engine", "quantisation")
        )
        assert whole == pytest.approx(engine * quantisation)
        assert row["engine"]["label"] is None
        assert "no speedup" in row["whole"]["label"]


def test_quality_falls_with_the_bits(result: dict[str, Any]) -> None:
    rows = {row["quantisation"]: row for row in result["quality"]["rows"]}
    assert result["quality"]["reference"] == "bf16"
    assert (
        rows["bf16"]["divergence"] == 0 < rows["q8_0"]["divergence"] < rows["q4_k_m"]["divergence"]
    )
