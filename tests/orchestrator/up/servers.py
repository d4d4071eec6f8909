"""Servers on the fake engine, in a cache of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.orchestrator.test_run import MUSEORCH
from tests.recipes_for_tests import write_prompts, write_recipe, write_server

ACCEPTS = "--accept 3,0,2 --draft-tokens 7"
REJECTS = "--accept 0 --draft-tokens 7"


def write_serving(folder: Path, flags: str = ACCEPTS, **changes: Any) -> Path:
    """A recipe for tiny-muse's files, served by the fake engine as llama-server."""
    folder.mkdir(parents=True, exist_ok=True)
    write_prompts(folder, 4)
    arm = {"backend": "llamacpp", "speculation": "dflash", "draft_tokens": 7}
    data = {
        "schema": 1,
        "name": "toy",
        "model": "tiny-muse",
        "device": "cpu",
        "engines": {"llamacpp": {"executable": str(write_server(folder))}},
        "workload": {"prompts": "prompts.jsonl", "count": 4, "output_tokens": 12},
        "serve": {"context_length": 256},
        "arms": [{**arm, "env": {"FAKE_ENGINE": flags}}],
    }
    return write_recipe(folder, {**data, **changes})


def museorch(
    home: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MUSEORCH, *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment(home, env),
    )


def environment(home: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "MUSEORCH_HOME": str(home), **(more or {})}


def answer(home: Path, *words: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What a command with --json prints; it must succeed."""
    done = museorch(home, *words, "--json", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def processes(marker: Path) -> list[Sequence[str]]:
    """Arguments of what runs with `marker` among its arguments."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if alive and any(str(marker) in word for word in words):
            found.append(words)
    return found


def kept(home: Path) -> list[str]:
    """What lies in the servers' folder, but for its lock."""
    folder = home / "servers"
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock"
    )
