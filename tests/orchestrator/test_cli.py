"""The boundary where expected failures become one line and a status."""

from __future__ import annotations

import subprocess
import sys
from typing import IO


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
