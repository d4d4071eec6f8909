"""What a server needs of memory, and what there is. All sizes in bytes."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

from backends import BACKENDS
from backends.base import Device, ServeSpec, Weights
from orchestrator.inputs.models import Attention, Model
from orchestrator.planning import cards

GIB = 1 << 30
KV_WIDTH = {"bf16": 2, "f16": 2, "f32": 4}
WINDOW_BATCH = 512
"""A sliding layer keeps its window and one batch."""
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Space:
    """Memory that weights can go to."""

    name: str
    free: int
    total: int


@dataclass(frozen=True)
class Part:
    name: str
    size: int | None
    """None is unknown; `why` then says so."""
    why: str = ""


@dataclass(frozen=True)
class Budget:
    parts: tuple[Part, ...]
    space: Space | None
    """None where free memory could not be read."""

    @property
    def needed(self) -> int:
        """The sum of what is known."""
        return sum(part.size for part in self.parts if part.size is not None)

    @property
    def fits(self) -> bool:
        """True too where free memory is unknown: nothing speaks against it."""
        return self.space is None or self.needed <= self.space.free


def budget(backend: str, spec: ServeSpec, model: Model, space: Space | None) -> Budget:
    parts = [_weights("weights", spec.target, model)]
    kv = _kv(model.target.attention, spec)
    if spec.drafter is not None:
        parts.append(_weights("drafter", spec.drafter.weights, model))
        own = _kv(model.drafters[spec.drafter.family].attention, spec)
        kv = kv + own if kv is not None and own is not None else None
    words = f"{spec.slots} x {spec.context_length} tokens, {spec.kv_dtype}"
    parts.append(Part("KV cache", kv, words if kv is not None else "the model file has no shape"))
    margin = BACKENDS[backend].margin_bytes
    parts.append(Part("margin", margin, "activations, graphs, the engine itself"))
    return Budget(tuple(parts), space)


def space(device: Device) -> Space | None:
    """Memory of the GPU that an engine gets, or this machine's."""
    return _gpu() if device == "cuda" else _ram()


def size_on_disk(weights: Weights) -> int | None:
    """Of the tensors' files; None where they are not here."""
    path = Path(weights.path)
    if path.is_dir():
        files = [*path.glob("*.safetensors"), *path.glob("*.gguf")]
        return sum(file.stat().st_size for file in files) if files else None
    return path.stat().st_size if path.is_file() else None


def free_disk(folder: Path) -> int:
    """Where `folder` is or will be made."""
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(place).free


def published_size(weights: Weights, model: Model) -> int | None:
    """As the model file has it; None where it does not say."""
    wanted = (weights.identity, weights.format, weights.quantisation)
    for spec in (model.target, *model.drafters.values()):
        for artefact in spec.artefacts:
            if (spec.identity, artefact.format, artefact.quantisation) == wanted:
                return artefact.bytes
    return None


def _weights(name: str, weights: Weights, model: Model) -> Part:
    size = size_on_disk(weights)
    if size is not None:
        return Part(name, size, f"{weights.identity} {weights.quantisation}")
    size = published_size(weights, model)
    why = "as published" if size is not None else "not here, and its size is not known"
    return Part(name, size, f"{weights.identity} {weights.quantisation}, {why}")


def _kv(attention: Attention | None, spec: ServeSpec) -> int | None:
    """Keys and values of all slots."""
    if attention is None:
        return None
    token = 2 * attention.kv_heads * attention.head_dim * KV_WIDTH[spec.kv_dtype]
    kept = min(spec.context_length, attention.window + WINDOW_BATCH)
    layers = attention.full_layers * spec.context_length + attention.sliding_layers * kept
    return layers * token * spec.slots


def _gpu() -> Space | None:
    """Of the one an engine gets."""
    found = cards.visible()
    if not found:
        return None
    argv = ["nvidia-smi", *cards.ask("--query-gpu=memory.free,memory.total", found[:1])]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=cards.TIMEOUT_S,
            check=True,
        )
        told = done.stdout.splitlines()[0]
        if "N/A" in told:  # of a GPU that shares the machine's memory, such as GB10's
            return _ram()
        free, total = told.split(",")
        return Space(found[0]["name"], int(free) << 20, int(total) << 20)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _ram() -> Space:
    memory = psutil.virtual_memory()
    free, total = memory.available, memory.total
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    if limit is not None and used is not None and limit < total:
        # Files it has read count as used, and are given back.
        cache = _cgroup_file_cache()
        return Space("RAM (of this container)", min(free, limit - used + cache), limit)
    return Space("RAM", free, total)


def _cgroup(name: str) -> int | None:
    try:
        return int((CGROUP / name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _cgroup_file_cache() -> int:
    try:
        rows = (CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        return sum(int(row.split()[1]) for row in rows if row.startswith("inactive_file "))
    except (OSError, ValueError, IndexError):
        return 0
