"""The design, as far as a machine can see it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from backends import BACKENDS
from backends.base import BackendName

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("orchestrator", "backends", "recipes")
HEAVY = {"torch", "transformers", "vllm", "sglang", "llama_cpp", "gguf", "numpy", "tokenizers"}


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Everything the module imports, at any depth, by its full name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", list(modules("backends")), ids=lambda p: str(p.relative_to(ROOT)))
def test_backends_do_not_import_the_flow(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & {"orchestrator", "tests", "tools"}


def test_no_backend_imports_another_and_nothing_shared_imports_one() -> None:
    for path in modules("backends"):
        own = path.relative_to(ROOT / "backends").parts[0]
        used = {".".join(name.split(".")[:2]) for name in imported(path)}
        if own != "__init__.py":
            assert not used & {f"backends.{name}" for name in BACKENDS if name != own}, path


NAMING = {
    "commands/gguf.py": "llama.cpp serves what is measured",
    "commands/patch.py": "images are patched for one engine",
    "convert/flow.py": "llama.cpp's converter",
    "convert/tools.py": "llama.cpp's converter",
    "environments/engine_probe.py": "a llama-server is asked in its own way",
    "environments/engines.py": "a llama-server may be named, and one for CUDA serves the CPU too",
    "gguf/of_run.py": "quality of llama.cpp's targets",
    "gguf/quality.py": "llama.cpp serves what is measured",
    "patching/document.py": "releases whose sources were read",
    "patching/place.py": "a compiled program cannot be patched",
    "patching/status.py": "how to tell a release that knows Muse Glimmer",
    "report/bridge.py": "quality of llama.cpp's targets",
    "up/choose.py": "which engine is tried first",
    "up/preflight.py": "vLLM's share of the GPU",
}
"""Modules of the flow that know an engine by its name, and why. A new engine looks at these."""


def test_few_modules_of_the_flow_know_an_engine_by_name() -> None:
    known = set(BACKENDS)
    for path in modules("orchestrator"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        used = {name.split(".")[1] for name in imported(path) if name.startswith("backends.")}
        named = bool(known & (words | used))
        assert named == (str(path.relative_to(ROOT / "orchestrator")) in NAMING), path


def test_every_backend_has_a_name_in_recipes() -> None:
    assert get_args(BackendName) == tuple(BACKENDS)


def test_every_folder_of_tests_is_a_package() -> None:
    """Else tests/backends would shadow the package `backends`."""
    for folder in (ROOT / "tests").rglob("*"):
        if folder.is_dir() and any(folder.glob("*.py")):
            assert (folder / "__init__.py").exists(), folder


def test_no_shell_strings() -> None:
    for path in modules(*PACKAGES):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "shell":
                raise AssertionError(f"{path}:{node.value.lineno}: shell=")


def loaded_by(*argv: str) -> set[str]:
    """Top-level modules in memory after a museorch command."""
    code = (
        "import sys\n"
        "from orchestrator.cli import main\n"
        f"sys.argv = ['museorch', *{argv!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print('|'.join({name.split('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(done.stderr.strip().splitlines()[-1].split("|"))


def test_help_loads_next_to_nothing() -> None:
    assert not loaded_by("--help") & (HEAVY | {"pydantic", "httpx", "yaml", "jinja2"})


def test_plan_loads_no_engine() -> None:
    assert not loaded_by("plan", "recipes/tiny-muse/demo.yaml") & (HEAVY - {"tokenizers"})


def test_the_mandated_packages_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for group in project["optional-dependencies"].values() for line in group]
    declared = project["dependencies"] + extras
    names = {line.split(">")[0].split("=")[0].split("[")[0].strip() for line in declared}
    wanted = {"vllm", "sglang", "llama-cpp-python", "gguf", "typer", "pyyaml", "httpx", "pytest"}
    assert wanted <= names
