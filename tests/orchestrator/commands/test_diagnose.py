"""`museorch diagnose`, as it is called."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from backends.errors import InputError
from orchestrator.commands.diagnose import diagnose

LOGS = Path(__file__).parents[1] / "diagnose" / "logs"


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(diagnose)
    return app


def test_a_known_failure_is_explained(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [str(LOGS / "vllm-dflash-unpatched.log")])

    assert result.exit_code == 0
    assert "vllm 0.32.0" in result.output
    assert "AttributeError: Target model does not have 'model' attribute" in result.output
    assert "fix: Apply museorch's patches" in result.output


def test_an_unknown_failure_exits_with_1(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [str(LOGS / "sglang-unknown.log")])

    assert result.exit_code == 1
    assert "unknown; the first error is" in result.output


def test_a_run_directory_is_diagnosed_arm_by_arm(app: typer.Typer, tmp_path: Path) -> None:
    for arm, log in (("a", "ordinary-llamacpp"), ("b", "llamacpp-port")):
        (tmp_path / "arms" / arm).mkdir(parents=True)
        shutil.copy(LOGS / f"{log}.log", tmp_path / "arms" / arm / "server.log")

    result = CliRunner().invoke(app, [str(tmp_path), "--json"])

    assert result.exit_code == 0
    document = json.loads(result.output)
    assert document["schema"] == 1
    first, second = document["logs"]
    assert first["log"].endswith("arms/a/server.log")
    assert first["findings"] == []
    assert first["summary"] is None
    assert second["findings"][0]["signature"] == "llamacpp-port-in-use"
    assert second["findings"][0]["line"] == 4


def test_a_log_can_be_piped_in(app: typer.Typer) -> None:
    log = (LOGS / "ordinary-vllm.log").read_bytes()

    result = CliRunner().invoke(app, ["-"], input=log)

    assert result.exit_code == 0
    assert "no error found" in result.output


def test_a_directory_without_logs_is_an_input_error(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path)])

    assert isinstance(result.exception, InputError)
    assert "no server log in this directory" in str(result.exception)
