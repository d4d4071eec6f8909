"""How museorch makes an environment with SGLang in it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from backends.base import Device
from backends.install import TORCHVISION_HOOK, Environment, Run, Write, cpu_torch, pip

VERSIONS: Mapping[Device, tuple[str, ...]] = {"cpu": ("0.5.23",), "cuda": ("0.5.23",)}
"""Releases that serve Muse Glimmer with its drafters, the default first."""


def environment(version: str, device: Device) -> Environment:
    return _cpu(version) if device == "cpu" else _cuda(version)


def _cuda(version: str) -> Environment:
    return Environment(
        backend="sglang",
        version=version,
        device="cuda",
        steps=(
            Run("Create the environment", ("{python}", "-m", "venv", "{root}")),
            Run(f"Install SGLang {version}", pip(f"sglang=={version}")),
        ),
        executable="bin/python",
        disk_bytes=25 * 10**9,
        newest_python=(3, 13),
    )


def _cpu(version: str) -> Environment:
    """SGLang without its CUDA packages, with the one function of vLLM that it then asks for.

    It serves Muse Glimmer only once museorch's CPU patches are applied.
    """
    here = Path(__file__).parent
    pins = (here / f"cpu-{version}.txt").read_text(encoding="utf-8")
    rotary = (here / "cpu_rotary.py").read_text(encoding="utf-8")
    return Environment(
        backend="sglang",
        version=version,
        device="cpu",
        steps=(
            Run("Create the environment", ("{python}", "-m", "venv", "{root}")),
            Write("Write the list of pins", "pins.txt", pins),
            *cpu_torch("2.13.0", "0.28.0"),
            Run("Complete torch", pip("torch==2.13.0")),
            Run("Install SGLang's dependencies", pip("--no-deps", "-r", "pins.txt")),
            Run(f"Install SGLang {version}", pip("--no-deps", f"sglang=={version}")),
            *TORCHVISION_HOOK,
            Write("Write the rotary stand-in's package", "{packages}/vllm/__init__.py", ""),
            Write("Write the rotary stand-in", "{packages}/vllm/_custom_ops.py", rotary),
            Run(
                "Check that SGLang starts",
                ("{python}", "-c", "import torchvision, sglang.srt.entrypoints.http_server"),
                env={"SGLANG_USE_CPU_ENGINE": "0", "TRITON_INTERPRET": "1"},
            ),
        ),
        executable="bin/python",
        disk_bytes=8 * 10**9,
        newest_python=(3, 13),
    )
