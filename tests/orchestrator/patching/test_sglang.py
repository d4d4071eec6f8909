"""On a real sglang without CUDA: refuses to draft, is patched, drafts with both families."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from backends.base import Sampling
from backends.errors import EngineError
from backends.patch import needed
from backends.sglang.launch import SGLANG
from backends.sglang.patches import PATCHES
from orchestrator.environments import engines
from orchestrator.patching import ensure
from orchestrator.serving.serve import serve
from tests.orchestrator.patching.real import PROBE, acceptance_length, private_packages, spec


@pytest.mark.slow
@pytest.mark.engine("sglang")
@pytest.mark.parametrize(("family", "k"), [("dflash", 15), ("dspark", 16)])
def test_is_patched_and_drafts(tmp_path: Path, family: Literal["dflash", "dspark"], k: int) -> None:
    engine = engines.resolve("sglang", device="cpu")
    folder = private_packages(engine, tmp_path / "packages")
    arm = SGLANG.plan(spec(engine, folder, family, k))
    assert arm.patches == needed(PATCHES, engine.version, "cpu", family)
    with (
        pytest.raises(EngineError, match=r"(?i)speculative decoding .*support"),
        serve(arm, SGLANG, folder=tmp_path, probe=PROBE, model="muse"),
    ):
        pass
    ensure(folder, [PATCHES[name] for name in arm.patches], owned=True, in_place=False)
    with serve(arm, SGLANG, folder=tmp_path, probe=PROBE, model="muse") as server:
        assert acceptance_length(server, SGLANG, Sampling(0.0), 2, 24) > 1.4
