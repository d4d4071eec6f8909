"""What a user's own interpreter or server binary is. It is run once; no engine is imported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from backends import BACKENDS
from backends.base import Device
from backends.errors import EngineError

TIMEOUT_S = 60.0

LOOK = """
import json
import sys
from importlib import metadata

def find(name):
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return {"version": found.version, "packages": str(found.locate_file(""))}

print(json.dumps({name: find(name) for name in sys.argv[1:]}))
"""
DISTRIBUTIONS = {name: backend.distributions for name, backend in BACKENDS.items()}


@dataclass(frozen=True)
class Probe:
    backend: str
    version: str
    device: Device
    executable: Path
    packages: Path | None


def probe(executable: str, backend: str | None) -> Probe:
    """Look at `executable`, a path or a program on PATH. Raises EngineError.

    `backend` says what is expected; None takes whichever engine an interpreter has.
    """
    path = _found(executable)
    return _server(path) if backend == "llamacpp" else _interpreter(path, backend)


def _found(executable: str) -> Path:
    found = shutil.which(os.path.expanduser(executable))
    if found is None:
        raise EngineError(
            "no such program, on PATH or as a path, that can be run.",
            where=executable,
            fix="Name a Python interpreter that has the engine, or a llama-server.",
        )
    return Path(found).absolute()


def _interpreter(path: Path, backend: str | None) -> Probe:
    if not _run(path, "--version").startswith("Python 3"):  # so that no other program gets LOOK
        raise EngineError("this is not a Python interpreter.", where=str(path))
    asked = [one for names in DISTRIBUTIONS.values() for one in names]
    output = _run(path, "-c", LOOK, "torch", *asked)
    try:
        have = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise EngineError(f"could not be asked: {output.strip()}", where=str(path)) from None
    engines = [name for name, names in DISTRIBUTIONS.items() if any(have[one] for one in names)]
    if backend is None:
        if len(engines) > 1:
            raise EngineError(
                f"has both {' and '.join(engines)}.",
                where=str(path),
                fix=f"Name it {' or '.join(engines)}.",
            )
        known = " or ".join(name for name, names in DISTRIBUTIONS.items() if names)
        backend = engines[0] if engines else known
    if backend not in engines:
        raise EngineError(f"has no {backend} in it.", where=str(path))
    name = next(one for one in DISTRIBUTIONS[backend] if have[one])
    entry = have[name]
    torch = have["torch"]["version"] if have["torch"] else ""
    on_cpu = "+cpu" in entry["version"] + torch or name.endswith("-cpu")
    version = entry["version"].split("+")[0]
    return Probe(backend, version, "cpu" if on_cpu else "cuda", path, Path(entry["packages"]))


def _server(path: Path) -> Probe:
    output = _run(path, "--version")
    # Older builds print `version: 4321 (0a1b2c3)`, newer ones `version: 0.5.0 (build 4321, ...`.
    told = re.search(r"^version: (\S+) \((?:build (\d+))?", output, re.MULTILINE)
    if told is None:
        raise EngineError("this is not a llama-server.", where=str(path))
    build = told[2] or told[1]
    version = f"b{build}" if build.isdigit() and int(build) > 1 else told[1]
    devices = _run(path, "--list-devices")
    cuda = re.search(r"^\s*CUDA\d+:", devices, re.MULTILINE) is not None
    return Probe("llamacpp", version, "cuda" if cuda else "cpu", path, None)


def _run(path: Path, *arguments: str) -> str:
    """Standard output and error together."""
    try:
        done = subprocess.run(
            [str(path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=path.parent,
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise EngineError(f"cannot be run: {error.strerror}.", where=str(path)) from None
    except subprocess.TimeoutExpired:
        raise EngineError(f"said nothing for {TIMEOUT_S:.0f} s.", where=str(path)) from None
    return done.stdout.decode("utf-8", "replace")
