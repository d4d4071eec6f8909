"""A real engine with private package files, the bundled model, and what it drafts."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Literal

from backends.base import Drafter, Overlay, Request, Sampling, ServeSpec, Weights
from backends.protocol import Backend
from orchestrator.environments.engines import Engine
from orchestrator.inputs.models import RECIPES, load_model
from orchestrator.inputs.recipe import load_recipe
from orchestrator.inputs.workload import render_prompts
from orchestrator.load.client import PhaseContext, run_requests
from orchestrator.patching import revert
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import Server

MODEL = RECIPES / "tiny-muse" / "model"
PROBE = Request("probe", (0, 100, 101), 2, Sampling(0.0), 0, (), False)


def private_packages(engine: Engine, folder: Path) -> Path:
    """An unpatched copy of the engine's Python files: others may be using the environment."""
    assert engine.packages is not None

    def copy(source: str, target: str) -> None:
        if source.endswith(".py"):
            shutil.copy2(source, target)
        else:
            os.symlink(source, target)

    shutil.copytree(
        engine.packages / engine.backend,
        folder / engine.backend,
        copy_function=copy,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for info in engine.packages.glob(f"{engine.backend}*-{engine.version}.dist-info"):
        shutil.copytree(info, folder / info.name)
    journal = engine.packages / "museorch-patches"
    if journal.is_dir():
        shutil.copytree(journal, folder / journal.name)
        revert(folder)
    return folder


def spec(engine: Engine, packages: Path, family: Literal["dflash", "dspark"], k: int) -> ServeSpec:
    """The bundled model with a drafter, the engine's files taken from `packages`."""
    # The bundled DFlash drafter names no vocabulary, as the published one does, and has a smaller.
    drafter = materialise(
        Overlay(str(MODEL / family), "test", "", changes={"vocab_size": 1024}), packages.parent
    )
    anchor = None if family == "dflash" else False
    return ServeSpec(
        executable=str(engine.executable),
        engine_version=engine.version,
        device="cpu",
        target=Weights(str(MODEL / "target"), "hf", "bf16", "tiny-muse"),
        drafter=Drafter(
            family, Weights(str(drafter), "hf", "bf16", family), 16, k, (0, 1, 2), anchor
        ),
        draft_tokens=k,
        context_length=512,
        slots=1,
        threads=2,
        extra_env={"PYTHONPATH": str(packages)},
    )


def acceptance_length(
    server: Server, backend: Backend, sampling: Sampling, prompts: int, tokens: int
) -> float:
    """Pooled over some of the bundled prompts."""
    folder = RECIPES / "tiny-muse"
    recipe, _ = load_recipe(folder / "demo.yaml")
    rendered = render_prompts(recipe, load_model("tiny-muse", folder), folder)[:prompts]
    requests = [
        Request(prompt.id, prompt.token_ids, tokens, sampling, 1, (), True) for prompt in rendered
    ]
    samples = asyncio.run(
        run_requests(
            server.url,
            backend,
            "muse",
            requests,
            concurrency=1,
            context=PhaseContext("test", "test", 0),
            on_sample=lambda _: None,
            should_stop=lambda: False,
            timeout_s=300.0,
        )
    )
    assert [sample.error for sample in samples] == [None] * prompts
    told = [sample.server for sample in samples if sample.server is not None]
    return 1 + sum(one.accepted or 0 for one in told) / sum(one.steps or 0 for one in told)
