"""The boundary where expected failures become one line and a status."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import typer

from orchestrator.cli import app


def museorch(*argv: str, stdout: IO[str] | None = None) -> tuple[int, str]:
    command = [sys.executable, "-m", "orchestrator.cli", *argv]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test_a_name_that_would_steer_the_terminal() -> None:
    status, told = museorch("plan", "\x1b[31mred")
    assert status == 2
    assert told.startswith("museorch: \\x1b[31mred: no such file.")


def test_a_full_disk() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert museorch("recipes", "list", stdout=full) == (
            1,
            "museorch: No space left on device.\n",
        )


def test_a_name_that_no_file_can_have() -> None:
    status, told = museorch("plan", "x" * 300)
    assert (status, told.count("\n")) == (1, 1)
    assert told.endswith("File name too long.\n")


def commands(command: Any) -> Iterator[Any]:
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from commands(below)


def test_no_help_is_lost_as_markup() -> None:
    """A word in brackets is taken for a style and not shown; defaults are show_default's."""
    every = list(commands(typer.main.get_command(app)))
    assert len(every) > 30
    helps = [
        parameter.help or ""
        for command in every
        for parameter in command.params
        if hasattr(parameter, "help")
    ]
    assert not [text for text in helps if "[" in text]
