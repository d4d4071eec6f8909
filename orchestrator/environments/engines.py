"""Which engines there are on this machine: those museorch made, and those a person named.

    <cache root>/engines/<backend>-<version>-<device>/   one environment each, museorch.json in it
    <cache root>/added/<name>.json                       an engine the user already has
    <cache root>/logs/                                   one log for each install

The cache root is $MUSEORCH_HOME, else ~/.cache/museorch.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backends import BACKENDS
from backends.base import Device
from backends.errors import EngineError, InputError
from backends.install import Environment
from orchestrator.environments import engine_build, engine_probe

ENVIRONMENTS: Mapping[str, Callable[[str, Device], Environment]] = {
    name: backend.environment for name, backend in BACKENDS.items()
}
SUPPORTED: Mapping[str, Mapping[Device, tuple[str, ...]]] = {
    name: backend.versions for name, backend in BACKENDS.items()
}
"""Versions museorch can install, the default first."""
WITH_TORCH = tuple(name for name, backend in BACKENDS.items() if backend.distributions)
"""Backends that are Python packages: their environments have torch and transformers."""


@dataclass(frozen=True)
class Engine:
    backend: str
    version: str
    device: Device
    executable: Path
    """The interpreter that has the engine, or the server binary."""
    root: Path | None
    """The environment's folder; None for a user's own engine."""
    owned: bool
    """Made by museorch, so museorch may patch and remove it."""
    packages: Path | None
    """The site-packages folder; None for llama.cpp."""
    name: str = ""
    """As `engines list` shows it; empty for one named by its path."""


def cache_root() -> Path:
    """InputError where the system knows no home folder."""
    try:
        return Path(os.environ.get("MUSEORCH_HOME") or "~/.cache/museorch").expanduser().absolute()
    except RuntimeError:
        what = "no home folder is known for this user."
        raise InputError(what, fix="Set MUSEORCH_HOME to a folder.") from None


def default_device() -> Device:
    """`cuda` where the NVIDIA driver shows a GPU, else `cpu`."""
    shown = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]  # dxg: WSL
    return "cuda" if shown else "cpu"


def default_version(backend: str, device: Device) -> str:
    """Raises InputError where museorch installs none."""
    versions = SUPPORTED[backend].get(device)
    if not versions:
        raise InputError(f"there is no {backend} for {device}.")
    return versions[0]


def environment_name(backend: str, version: str, device: Device) -> str:
    return f"{backend}-{version}-{device}"


def installed() -> list[Engine]:
    """The engines that can be used now, museorch's own first."""
    return _own() + _added_usable()


def resolve(
    backend: str,
    *,
    version: str | None = None,
    device: Device = "cpu",
    executable: str | None = None,
) -> Engine:
    """The engine to use: the one named, else museorch's own, else one that was added.

    `executable` is a path, a program on PATH, or the name of an added engine. Raises EngineError
    when there is none, or when the named one is of another backend, version or device.
    """
    if executable is not None:
        engine = _named(executable, backend)
        _check_match(engine, backend, version, device)
        return engine
    wanted = version or default_version(backend, device)
    for engines in (_own, _added_usable):  # an added one is run to look at it, so only if needed
        fitting = [
            engine
            for engine in engines()
            if engine.backend == backend
            and _serves(engine, device)
            and version in (None, engine.version)
        ]
        if fitting:
            return max(
                fitting,
                key=lambda e: (e.device == device, e.version == wanted, _order(e.version)),
            )
    known = SUPPORTED[backend][device]
    if wanted not in known:
        fix = f"museorch can install {', '.join(known)}; name your own with `engines add`."
    else:
        options = "" if wanted == known[0] else f" --version {wanted}"
        options += "" if device == default_device() else f" --device {device}"
        fix = f"Run: museorch engines install {backend}{options}"
    raise EngineError(f"{backend} {wanted} ({device}) is not installed.", fix=fix)


def install(
    backend: str,
    version: str,
    device: Device,
    report: Callable[[str], None],
    *,
    force: bool = False,
) -> Engine:
    """Make the environment unless it is there. Raises EngineError naming the failed step."""
    if version not in SUPPORTED[backend][device]:
        raise InputError(
            f"museorch cannot install {backend} {version} ({device}).",
            fix=f"Known: {', '.join(SUPPORTED[backend][device])}.",
        )
    name = environment_name(backend, version, device)
    root = _engines() / name
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with engine_build.locked(cache_root() / "locks" / f"{name}.lock", report):
        if force or root not in [engine.root for engine in _own()]:
            log = cache_root() / "logs" / f"install-{name}-{stamp}.log"
            engine_build.build(ENVIRONMENTS[backend](version, device), root, log, report)
        return _owned(root)


def add(name: str, executable: str, *, server: bool) -> Engine:
    """Register an engine the user has, after looking at it once.

    A name that is a backend's says what to look for. `server`: it is a llama-server.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(f"{name!r} is no name for an engine.", fix="Use letters, digits, . _ -")
    expected = "llamacpp" if server else name if name in WITH_TORCH else None
    if (_engines() / name).exists() or name in ENVIRONMENTS.keys() - {expected}:
        raise InputError(f"{name!r} is the name of another engine.", fix="Choose another name.")
    engine = _from_path(executable, expected, name)
    folder = cache_root() / "added"
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"backend": engine.backend, "executable": str(engine.executable)}
    (folder / f"{name}.json").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    return engine


def added_names() -> list[str]:
    return sorted(path.stem for path in (cache_root() / "added").glob("*.json"))


def added_problem(name: str) -> str | None:
    """Why an added engine cannot be used any more, or None."""
    try:
        _added(name)
    except EngineError as error:
        return error.message
    return None


def own_problems() -> dict[str, str]:
    """museorch's environments that cannot be used, and why."""
    usable = {engine.root for engine in _own()}
    return {
        root.name: "its interpreter or binary is gone"
        if (root / engine_build.MANIFEST).exists()
        else "it was not made to the end, unless an install is at it now"
        for root in sorted(_engines().glob("*/"))
        if root not in usable
    }


def remove(name: str, report: Callable[[str], None] = lambda _: None) -> None:
    """Delete museorch's environment, or forget an added engine and leave it as it is."""
    if name in added_names():
        (cache_root() / "added" / f"{name}.json").unlink()
        return
    root = _engines() / name
    with engine_build.locked(cache_root() / "locks" / f"{name}.lock", report):
        engine_build.discard(root)


def _engines() -> Path:
    return cache_root() / "engines"


def _own() -> list[Engine]:
    """Finished ones that run: an interpreter is a link, which may have lost what it points to."""
    made = [_owned(path.parent) for path in sorted(_engines().glob(f"*/{engine_build.MANIFEST}"))]
    return [engine for engine in made if engine.executable.exists()]


def _added_usable() -> list[Engine]:
    usable = []
    for name in added_names():
        try:
            usable.append(_added(name))
        except EngineError:
            continue  # `engines list` says why
    return usable


def _owned(root: Path) -> Engine:
    facts = _read(
        root / engine_build.MANIFEST, "backend", "version", "device", "executable", "python"
    )
    python = facts["python"].rsplit(".", 1)[0]
    packages = root / "lib" / f"python{python}" / "site-packages"
    return Engine(
        backend=facts["backend"],
        version=facts["version"],
        device=facts["device"],
        executable=root / facts["executable"],
        root=root,
        owned=True,
        packages=packages if packages.is_dir() else None,
        name=root.name,
    )


def _read(path: Path, *keys: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        facts = {key: found[key] for key in keys}
    except (OSError, ValueError, KeyError, TypeError):
        facts = {}
    if not facts or not all(isinstance(fact, str) for fact in facts.values()):
        raise EngineError("is damaged.", where=str(path), fix="Delete it.")
    return facts


def _added(name: str) -> Engine:
    entry = _read(cache_root() / "added" / f"{name}.json", "backend", "executable")
    return _from_path(entry["executable"], entry["backend"], name)


def _named(executable: str, backend: str) -> Engine:
    if executable in added_names():
        return _added(executable)
    return _from_path(executable, backend, "")


def _from_path(executable: str, backend: str | None, name: str) -> Engine:
    probe = engine_probe.probe(executable, backend)
    return Engine(
        probe.backend,
        probe.version,
        probe.device,
        probe.executable,
        None,
        False,
        probe.packages,
        name,
    )


def _serves(engine: Engine, device: Device) -> bool:
    """llama.cpp built with CUDA also runs on the CPU; the others run on what they are for."""
    return engine.device == device or (engine.backend == "llamacpp" and device == "cpu")


def _check_match(engine: Engine, backend: str, version: str | None, device: Device) -> None:
    where = str(engine.executable)
    if engine.backend != backend:
        raise EngineError(f"this is {engine.backend}, not {backend}.", where=where)
    if version is not None and engine.version != version:
        raise EngineError(f"has {backend} {engine.version}, not {version}.", where=where)
    if not _serves(engine, device):
        raise EngineError(
            f"has {backend} {engine.version} for {engine.device}, not for {device}.", where=where
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
