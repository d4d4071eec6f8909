"""The run directory: written as a run goes, so that a killed run keeps what it has.

recipe.yaml  plan.json  environment.json  run.json
arms/<id>/<turn>/  server.log  samples.jsonl  counters.json  status.json  gpu.csv
result.json  report.html  report.md
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from backends.errors import InputError
from orchestrator.inputs.document import read_text

SCHEMA = 1
"""Of run.json, and so of all files beside it."""
FIX = "Is this a run directory?"
CHANGED = "Another version of museorch wrote it, or it was changed."
BOOKEND = 2
"""The turn that repeats the reference arm at the end of a run."""


def block_turns(blocks: int) -> list[int]:
    """The turns that are measured, one for each block."""
    return [1, *range(BOOKEND + 1, BOOKEND + blocks)]


def new_run_path(name: str, base: Path = Path("runs")) -> Path:
    """`runs/<utc>-<recipe>`, made unique."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = base / f"{stamp}-{name}"
    for number in range(2, 1000):
        if not path.exists():
            break
        path = base / f"{stamp}-{name}-{number}"
    return path


def write_json(path: Path, data: Any) -> None:
    """Whole or not at all: a reader never sees half a file."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def read_json(path: Path) -> Any:
    """Raises InputError with file and place where it is missing or broken.

    So does looking up a key that one of its objects lacks.
    """

    class Object(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            raise InputError(f'lacks "{key}".', where=str(path), fix=CHANGED)

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_hook=Object)
    except FileNotFoundError:
        raise InputError("no such file.", where=str(path), fix=FIX) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}.", where=f"{path}:{error.lineno}") from None


class RunDirectory:
    """Paths of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make the folder. Refuses one that already holds something."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(
                "already exists and is not empty.",
                where=str(path),
                fix="Name another folder, or finish that run with --resume.",
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made: {error.strerror}.", where=str(path)) from None
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Raises InputError where it is none, or one of another version of museorch."""
        run = cls(path)
        facts = read_json(run.run_file)
        schema = facts["schema"] if isinstance(facts, dict) else None
        if schema != SCHEMA:
            raise InputError(
                f"has schema {schema}; this museorch reads schema {SCHEMA}.",
                where=str(run.run_file),
                fix="Use the version that wrote it.",
            )
        return run

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def recipe_file(self) -> Path:
        return self.path / "recipe.yaml"

    def recipe_text(self) -> str:
        """Raises InputError where it is missing or no text."""
        return read_text(self.recipe_file)

    @property
    def plan_file(self) -> Path:
        return self.path / "plan.json"

    @property
    def environment_file(self) -> Path:
        return self.path / "environment.json"

    @property
    def distribution_file(self) -> Path:
        """Rows of `museorch audit --run`; most runs have none."""
        return self.path / "distribution.json"

    @property
    def quality_file(self) -> Path:
        """Of a recipe's `quality`; most runs have none."""
        return self.path / "quality.json"

    @property
    def result_file(self) -> Path:
        return self.path / "result.json"

    def turn(self, arm: str, repeat: int) -> Path:
        """Folder of one start of one arm: repeat 1, or another of block_turns, or BOOKEND."""
        return self.path / "arms" / arm / str(repeat)
