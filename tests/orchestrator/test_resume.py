"""What must be the same for an unfinished run to be finished."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.errors import InputError
from orchestrator.job import create, prepare, reopen
from orchestrator.rundir import RunDirectory
from tests.recipes_for_tests import recipe_data, write_recipe


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """The recipe of a run that was started in tmp_path/out."""
    found = recipe_data(tmp_path)
    create(prepare(str(write_recipe(tmp_path, found))), tmp_path / "out")
    return found


def reopened(folder: Path, data: dict[str, Any]) -> RunDirectory:
    return reopen(prepare(str(write_recipe(folder, data))), folder / "out")


def test_the_same_recipe_goes_on_from_another_file(tmp_path: Path, data: dict[str, Any]) -> None:
    moved = tmp_path / "moved.yaml"
    write_recipe(tmp_path, data).rename(moved)
    assert reopen(prepare(str(moved)), tmp_path / "out").path == tmp_path / "out"


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "allow": lambda data: data.update(allow=["quantisation"]),
    "workload": lambda data: data["workload"].update(warmup=2),
    "bookend": lambda data: data.update(order={"bookend": False}),
    "blocks": lambda data: data.update(order={"blocks": 2}),
    "serve": lambda data: data["serve"].update(kv_dtype="f16"),
    "arms": lambda data: data["arms"].pop(),
    "draft_tokens of llamacpp-dflash": lambda data: data["arms"][1].update(draft_tokens=3),
    "argv of llamacpp-dflash": lambda data: data["arms"][1].update(engine_args=["--no-mmap"]),
    "env of llamacpp-base": lambda data: data["arms"][0].update(env={"A": "b"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_the_verdict_is_refused(
    what: str, tmp_path: Path, data: dict[str, Any]
) -> None:
    CHANGES[what](data)
    with pytest.raises(InputError, match=f"differs from this start in {what}[ ;]"):
        reopened(tmp_path, data)


def test_another_machine_is_refused(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "out" / "environment.json"
    machine = json.loads(path.read_text(encoding="utf-8"))
    machine["cpu"]["model"] = "Another CPU"
    path.write_text(json.dumps(machine), encoding="utf-8")
    with pytest.raises(InputError, match="in machine"):
        reopened(tmp_path, data)


def test_a_plan_without_one_of_the_arms_is_refused(tmp_path: Path, data: dict[str, Any]) -> None:
    (tmp_path / "out" / "plan.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="in id of llamacpp-base"):
        reopened(tmp_path, data)


def test_the_recipe_is_kept_as_it_was_read(tmp_path: Path) -> None:
    """Not as the file is later, and of a pipe too, which can be read only once."""
    path = write_recipe(tmp_path, recipe_data(tmp_path))
    read = path.read_text(encoding="utf-8")
    job = prepare(str(path))
    path.write_text("changed", encoding="utf-8")
    assert create(job, tmp_path / "out").recipe_file.read_text(encoding="utf-8") == read
