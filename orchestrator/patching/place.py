"""Where patches go: the package folders of the engines on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backends import BACKENDS
from backends.base import Device
from backends.errors import InputError, PatchError
from backends.patch import Patch
from orchestrator.environments import engine_probe, engines
from orchestrator.patching.status import installed_version

PATCHES: Mapping[str, Mapping[str, Patch]] = {
    name: backend.patches for name, backend in BACKENDS.items() if backend.patches
}


@dataclass(frozen=True)
class Place:
    """An engine's packages, and what patches for them are chosen by."""

    name: str
    """As `engines list` shows it, or the path it was named by."""
    engine: str
    version: str | None
    device: Device | None
    """None where it was named by its folder alone."""
    packages: Path

    @property
    def patches(self) -> Mapping[str, Patch]:
        return PATCHES[self.engine]


def find(name: str | None, python: str | None, packages: Path | None) -> list[Place]:
    """The engines that the words of a command mean; without any, all that have packages.

    `name`: a backend, or a name that `engines list` shows. Raises InputError or EngineError.
    """
    if packages is not None:
        return [_folder(packages, name)]
    if python is not None:
        probe = engine_probe.probe(python, name)
        return [_known(str(probe.executable), probe.backend, probe.device, probe.packages)]
    if name == "llamacpp":
        raise InputError("llama.cpp is a compiled program; museorch patches vllm and sglang.")
    places = [
        _known(engine.name, engine.backend, engine.device, engine.packages)
        for engine in engines.installed()
        if engine.packages is not None and name in (None, engine.name, engine.backend)
    ]
    if not places:
        raise InputError(
            f"no engine named {name} here." if name else "no engine to patch here.",
            fix="See `museorch engines list`, or name an interpreter with --python.",
        )
    return places


def only(name: str | None, python: str | None, packages: Path | None) -> Place:
    """As `find`, where exactly one is meant."""
    places = find(name, python, packages)
    if len(places) > 1:
        raise InputError(
            f"{len(places)} engines fit: {', '.join(place.name for place in places)}.",
            fix="Name one of them.",
        )
    return places[0]


def _known(name: str, engine: str, device: Device, packages: Path | None) -> Place:
    if packages is None:
        raise InputError("has no packages that could be patched.", where=name)
    return Place(name, engine, installed_version(packages, engine), device, packages)


def _folder(packages: Path, engine: str | None) -> Place:
    if not packages.is_dir():
        raise InputError("no such folder.", where=str(packages))
    found = [
        candidate
        for candidate in PATCHES
        if engine in (None, candidate) and (packages / candidate).is_dir()
    ]
    if len(found) != 1:
        raise PatchError(
            "has both vllm and sglang in it." if found else "has no vllm or sglang in it.",
            where=str(packages),
            fix="Name one of them." if found else None,
        )
    return Place(str(packages), found[0], installed_version(packages, found[0]), None, packages)
