"""What an arm needs of its engine's Python environment, and what of that is not there."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

from backends.base import Finding
from orchestrator.environments.engines import Engine

TIMEOUT_S = 30.0

LOOK = """
import json, os, sys
from importlib.util import find_spec

def lacks(name):
    module, _, file = name.partition("/")
    found = find_spec(module)
    places = found and (found.submodule_search_locations or [])
    return found is None or file and not any(os.path.exists(f"{p}/{file}") for p in places)

print(json.dumps([name for name in sys.argv[1:] if lacks(name)]))
"""
"""Finds modules without importing them; `vllm/a/b.py` is a file in one."""


def findings(engine: Engine, modules: tuple[str, ...]) -> tuple[Finding, ...]:
    """One finding for all that is missing; none where the interpreter cannot be asked."""
    if engine.packages is None or not modules:
        return ()
    found = _lacking(engine.executable, modules)
    packages = [name for name in found if "/" not in name]
    files = [name for name in found if "/" in name and name.split("/")[0] not in packages]
    told = []
    if packages:
        told.append(f"has no {', '.join(packages)}")
    if files:
        told.append(f"does not know Muse Glimmer or this drafter (no {', '.join(files)})")
    if not told:
        return ()
    engine_name = f"{engine.backend} {engine.version}"
    fix = f"museorch engines install {engine.backend} makes a whole environment of its own."
    if packages and not engine.owned:
        fix = f"{engine.executable} -m pip install {' '.join(packages)}; or: {fix}"
    text = f"the environment of {engine_name} {' and '.join(told)}."
    return (Finding("error", "missing-packages", text, fix),)


@cache
def _lacking(executable: Path, modules: tuple[str, ...]) -> tuple[str, ...]:
    try:
        done = subprocess.run(
            [str(executable), "-c", LOOK, *modules],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=executable.parent,  # not where a folder of that name may lie
            timeout=TIMEOUT_S,
            check=True,
        )
        return tuple(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return ()
