"""Engines that lack one declared patch, in private copies: the audit finds what it mends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.errors import EngineError
from orchestrator.distribution.audit import AS_ASKED, DIFFERS, judge, look_up
from orchestrator.distribution.draw import Asked, draw
from orchestrator.job import prepare
from tests.orchestrator.patching.real import private_packages


@pytest.mark.slow
@pytest.mark.engine("vllm")
@pytest.mark.engine("sglang")
@pytest.mark.parametrize(
    ("arm", "patch", "samples", "tokens"),
    [
        ("vllm-dflash", "vllm-cpu-expand", 40, 4),
        ("sglang-base", "sglang-top-p-after-top-k", 150, 4),
        ("sglang-dflash", "sglang-cpu-dflash-sampling", 40, 4),
    ],
)
def test_a_missing_patch_is_found(
    tmp_path: Path, arm: str, patch: str, samples: int, tokens: int
) -> None:
    job = prepare("tiny-muse/three-engines")
    item = next(planned for planned in job.planned if planned.arm.id == arm)
    assert item.engine is not None
    folder = private_packages(item.engine, tmp_path / "packages")
    assert patch in item.plan.patches
    env = {**item.plan.env, "PYTHONPATH": str(folder)}
    patches = tuple(name for name in item.plan.patches if name != patch)
    without = replace(
        item,
        engine=replace(item.engine, packages=folder),
        plan=replace(item.plan, env=env, patches=patches),
    )
    prompts = tuple(p for p in job.prompts if "code" in p.id)
    asked = Asked(prompts, tuple(job.model.model.tokens.end), samples, tokens, seed=1)
    try:
        drawn = {arm: draw(without, asked, tmp_path / "arm")}
    except EngineError as error:
        # Uninitialised top_k values: now and then they are so large that the engine dies of them.
        if arm == "vllm-dflash" and "out of bounds" in error.what:
            return
        raise
    rows = judge(drawn, {p.id: p.token_ids for p in prompts}, asked.end, look_up(job))
    found = {(row.mode, row.positions): row.verdict for row in rows}
    assert DIFFERS in found.values(), rows
    if arm.endswith("dflash"):
        # The first token is not drafted.
        assert found["t1.0", "first token"] == AS_ASKED
