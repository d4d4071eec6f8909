"""The programs that convert: of the llama.cpp museorch built, and an environment with torch."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from pathlib import Path

from backends.base import Device
from backends.errors import EngineError
from backends.llamacpp.convert import SCRIPT
from orchestrator.environments import engines

DEVICES: tuple[Device, ...] = ("cpu", "cuda")
NEEDED = ("torch", "transformers", "numpy", "yaml", "safetensors")


@dataclass(frozen=True)
class Tools:
    python: Path
    source: Path
    """Folder of convert_hf_to_gguf.py."""
    quantiser: Path
    version: str
    """For the manifest: release, hash of the converter with museorch's script, of the quantiser."""


def tools() -> Tools:
    """Raises EngineError with the command that installs what is missing."""
    root, release = _llamacpp()
    source, quantiser = root / "src", root / "bin" / "llama-quantize"
    digests = [_digest([*source.rglob("*.py"), SCRIPT]), _digest([quantiser])]
    version = f"llama.cpp of llama-cpp-python {release}, {digests[0]}, {digests[1]}"
    return Tools(_python(), source, quantiser, version)


def _llamacpp() -> tuple[Path, str]:
    for device in DEVICES:
        try:
            engine = engines.resolve("llamacpp", device=device)
        except EngineError:
            continue
        if engine.root is not None and (engine.root / "src").is_dir():
            return engine.root, engine.version
    raise EngineError(
        "Converting needs the llama.cpp that museorch builds: it brings converter and quantiser.",
        fix="Run: museorch engines install llamacpp",
    )


def _python() -> Path:
    for backend, device in itertools.product(engines.WITH_TORCH, DEVICES):
        try:
            engine = engines.resolve(backend, device=device)
        except EngineError:
            continue
        packages = engine.packages
        if packages is not None and all((packages / name).is_dir() for name in NEEDED):
            return engine.executable
    raise EngineError(
        "Converting needs torch and transformers, which the environment of vLLM or SGLang has; "
        "neither is installed.",
        fix="Run: museorch engines install vllm",
    )


def _digest(files: list[Path]) -> str:
    """The first half of a sha256 over the contents."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]
