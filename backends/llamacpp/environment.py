"""How museorch builds llama-server and llama-quantize, as data.

The source is the one that llama-cpp-python's source distribution carries: it knows Muse Glimmer,
DFlash and DSpark, and comes from the same package index as everything else. cmake and ninja are
taken from there too, so only a C++ compiler (and nvcc for CUDA) must be on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from backends.base import Device
from backends.install import Environment, Run, Write

VERSIONS: Mapping[Device, tuple[str, ...]] = {"cpu": ("0.3.36",), "cuda": ("0.3.36",)}
"""Releases of llama-cpp-python, the default first."""

BUILD_PYTHON = "{root}/build/venv/bin/python"

KEEP = '''"""Keep the binaries and what conversion needs; drop the rest."""

import shutil
import sys
from pathlib import Path

root, source = Path(sys.argv[1]), Path(sys.argv[2])
(root / "bin").mkdir()
for name in ("llama-server", "llama-quantize"):
    shutil.move(root / "build/out/bin" / name, root / "bin" / name)
(root / "src").mkdir()
for name in ("convert_hf_to_gguf.py", "conversion", "gguf-py", "LICENSE"):
    shutil.move(source / name, root / "src" / name)
shutil.rmtree(root / "build")
'''


def environment(version: str, device: Device) -> Environment:
    source = f"{{root}}/build/llama_cpp_python-{version}/vendor/llama.cpp"
    # Static: the binary stands alone. No web UI: its assets would be fetched while building.
    configure = (
        *("-m", "cmake", "-S", source, "-B", "{root}/build/out", "-G", "Ninja"),
        "-DCMAKE_MAKE_PROGRAM={root}/build/venv/bin/ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBUILD_SHARED_LIBS=OFF",
        "-DGGML_NATIVE=ON",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        "-DLLAMA_BUILD_APP=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
        "-DLLAMA_OPENSSL=OFF",
        # Its CPU matrix kernels sum in another order for one column than for several, so greedy
        # output with a drafter drifts from plain output. ggml's own do not: equal is equal.
        *(("-DGGML_LLAMAFILE=OFF",) if device == "cpu" else ()),
        *(("-DGGML_CUDA=ON",) if device == "cuda" else ()),
    )
    targets = ("llama-server", "llama-quantize")
    return Environment(
        backend="llamacpp",
        version=version,
        device=device,
        steps=(
            Run("Create the build environment", ("{python}", "-m", "venv", "build/venv")),
            Run(
                "Install cmake and ninja",
                (
                    *(BUILD_PYTHON, "-m", "pip", "install", "--no-input", "--progress-bar=off"),
                    *("cmake==4.4.5", "ninja==1.13.2"),
                ),
            ),
            Run(
                "Download the source",
                (
                    *(BUILD_PYTHON, "-m", "pip", "download", "--no-input", "--progress-bar=off"),
                    *("--no-deps", "--no-binary=llama-cpp-python", "--dest={root}/build"),
                    f"llama-cpp-python=={version}",
                ),
            ),
            Run(
                "Unpack the source",
                (
                    *("{python}", "-m", "tarfile", "-e"),
                    *(f"build/llama_cpp_python-{version}.tar.gz", "build"),
                ),
            ),
            Run("Configure the build", (BUILD_PYTHON, *configure)),
            Run(
                "Build llama-server and llama-quantize",
                (
                    *(BUILD_PYTHON, "-m", "cmake", "--build", "{root}/build/out"),
                    *("--parallel", "{jobs}", "--target", *targets),
                ),
            ),
            Write("Write the clean-up", "build/keep.py", KEEP),
            Run("Keep the binaries and the converter", ("{python}", "build/keep.py", ".", source)),
            Run("Check llama-server", ("{root}/bin/llama-server", "--version")),
        ),
        executable="bin/llama-server",
        disk_bytes=(12 if device == "cuda" else 2) * 10**9,
        tools=("c++", "nvcc") if device == "cuda" else ("c++",),
    )
