"""The three-engine recipe, shortened, against reference implementations of both drafters.

DFlash: transformers' own assisted generation. DSpark: this project's torch drafter on transformers'
hidden states. Both in float32; the engines round to bf16, which turns some drafts either way.
test_float32.py shows that without rounding nothing differs.
"""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.environments.engines import resolve
from orchestrator.inputs.models import RECIPES
from orchestrator.job import prepare
from orchestrator.load import sample
from orchestrator.load.sample import Sample
from tests.orchestrator.test_run import MUSEORCH, leftovers

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.engine("llamacpp"),
    pytest.mark.engine("vllm"),
    pytest.mark.engine("sglang"),
]


def recipe(folder: Path, keep: set[str] | None, count: int, tokens: int) -> Path:
    """The shipped recipe, greedy, with the arms of these backends' drafters only."""
    shipped = yaml.safe_load((RECIPES / "tiny-muse" / "three-engines.yaml").read_text())
    shipped["workload"].update(count=count, output_tokens=tokens, modes=["greedy"], warmup=0)
    if keep is not None:
        shipped["arms"] = [
            {**arm, "backend": [b for b in arm["backend"] if b in keep]}
            for arm in shipped["arms"]
            if arm["speculation"] != "none"
        ]
        shipped["order"] = {"bookend": False}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(shipped), encoding="utf-8")
    return path


def compare(path: Path, out: Path) -> dict[str, list[Sample]]:
    done = subprocess.run(
        [*MUSEORCH, "compare", str(path), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not leftovers(out)
    return {
        folder.name: sample.read(folder / "1" / "samples.jsonl")
        for folder in sorted((out / "arms").iterdir())
    }


def reference(path: Path) -> dict[str, dict[str, list[Any]]]:
    job = prepare(str(path))
    asked = {
        "model": str(RECIPES / "tiny-muse" / "model"),
        "prompts": [prompt.token_ids for prompt in job.prompts],
        "tokens": job.recipe.workload.output_tokens,
        "drafts": 15,
    }
    done = subprocess.run(
        [str(resolve("vllm", device="cpu").executable), "-m", "tools.tiny_muse.reference"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, list[Any]]] = json.loads(done.stdout)
    return found


def check(arms: dict[str, list[Sample]], expected: dict[str, dict[str, list[Any]]]) -> None:
    """Verification passes: within 5 % overall; where ids agree within 1 %, or two standard errors.

    The standard error is that of the sum over prompts: rounding goes either way from one prompt to
    the next, a fault goes one way.
    """
    assert expected["dflash"] == expected["dflash, torch"]
    texts = expected["plain"]["ids"]
    for arm, samples in arms.items():
        assert [s.error for s in samples] == [None] * len(texts), arm
        assert {s.finish for s in samples} == {"length"}, arm
        same = [i for i, s in enumerate(samples) if list(s.token_ids) == texts[i]]
        assert len(same) >= len(texts) / 2, arm
        if arm.endswith("base"):
            continue
        wanted = expected[arm.split("-")[1]]["passes"]
        passes = [s.server.steps if s.server else None for s in samples]
        assert sum(p or 0 for p in passes) == pytest.approx(sum(wanted), rel=0.05), (arm, passes)
        off = [(passes[i] or 0) - wanted[i] for i in same]
        allowed = max(0.01 * sum(wanted[i] for i in same), 2 * math.hypot(*off))
        assert abs(sum(off)) <= allowed, (arm, passes, wanted)


def test_drafters_accept_as_their_references_do(tmp_path: Path) -> None:
    path = recipe(tmp_path, {"llamacpp", "sglang"}, 8, 48)
    check(compare(path, tmp_path / "out"), reference(path))


@pytest.mark.slow
def test_the_whole_recipe(tmp_path: Path) -> None:
    path = recipe(tmp_path, None, 16, 96)
    arms = compare(path, tmp_path / "out")
    assert len(arms) == 8
    check(arms, reference(path))
