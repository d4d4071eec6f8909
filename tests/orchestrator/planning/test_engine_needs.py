"""What an engine's environment lacks, asked of real interpreters without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backends import BACKENDS
from backends.base import Device
from orchestrator.environments.engines import Engine, resolve
from orchestrator.planning import engine_needs
from tests.backends.specs import spec


def engine(executable: str = sys.executable, *, owned: bool = False) -> Engine:
    path = Path(executable)
    return Engine("vllm", "9.9", "cpu", path, None, owned, path.parent)


def test_what_is_missing_is_one_finding_with_a_command() -> None:
    wanted = ("tokenizers", "no_such_package", "nor_this", "nor_this/file.py")
    (found,) = engine_needs.findings(engine(), wanted)
    assert found.level == "error"
    assert found.text == "the environment of vllm 9.9 has no no_such_package, nor_this."
    assert f"{sys.executable} -m pip install no_such_package nor_this" in str(found.fix)
    (found,) = engine_needs.findings(engine(owned=True), wanted)
    assert str(found.fix).startswith("museorch engines install vllm")


def test_an_engine_without_the_architecture_is_told_from_one_with_it() -> None:
    (found,) = engine_needs.findings(engine(), ("yaml/muse_glimmer.py", "yaml/__init__.py"))
    assert "does not know Muse Glimmer or this drafter (no yaml/muse_glimmer.py)" in found.text


def test_nothing_is_said_of_what_cannot_be_asked(tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    silent.chmod(0o755)
    for path in (silent, tmp_path / "none"):
        assert engine_needs.findings(engine(str(path)), ("torch",)) == ()
    assert engine_needs.findings(engine(), ()) == ()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_sglang_needs_its_kernels_on_a_gpu_only_and_gguf_for_gguf(device: Device) -> None:
    modules = BACKENDS["sglang"].plan(spec("dspark", device=device)).modules
    assert ("sgl_kernel" in modules) is (device == "cuda")
    assert "sglang/srt/models/dspark.py" in modules
    assert "gguf" not in modules


@pytest.mark.engine("vllm")
@pytest.mark.engine("sglang")
def test_our_own_environments_lack_nothing() -> None:
    for backend in ("vllm", "sglang"):
        modules = BACKENDS[backend].plan(spec("dflash", device="cpu")).modules
        assert engine_needs.findings(resolve(backend), modules) == ()
