"""The llama.cpp environment as it came out."""

from __future__ import annotations

import subprocess

import pytest

from orchestrator.environments.engines import resolve


@pytest.mark.engine("llamacpp")
def test_binaries_stand_alone_and_the_converter_is_kept() -> None:
    own = resolve("llamacpp", device="cpu")
    assert own.root is not None
    assert resolve("llamacpp", device="cpu", executable=str(own.executable)).backend == "llamacpp"
    for name in ("llama-server", "llama-quantize"):
        binary = own.root / "bin" / name
        linked = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=True)
        assert "libllama" not in linked.stdout
        assert "libggml" not in linked.stdout
    assert (own.root / "src" / "convert_hf_to_gguf.py").is_file()
    assert (own.root / "src" / "conversion" / "muse_glimmer.py").is_file()
    assert (own.root / "src" / "gguf-py" / "gguf" / "__init__.py").is_file()
    assert not (own.root / "build").exists()
