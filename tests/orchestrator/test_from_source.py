"""museorch run from its source tree: what it imports is on PYTHONPATH, itself not installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import orchestrator
from orchestrator.measuring.environment import museorch_version

ROOT = Path(orchestrator.__file__).parents[1]


def test_it_knows_its_version_without_being_installed(tmp_path: Path) -> None:
    packages = Path(sysconfig.get_paths()["purelib"])
    for entry in packages.iterdir():
        if "museorch" not in entry.name:
            (tmp_path / entry.name).symlink_to(entry)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "orchestrator.cli", "--version"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == museorch_version(), done.stderr
