"""What only this machine can say against a plan: its kernel, its GPU, the drafter's own headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backends.base import Device, Finding, Level, ServeSpec
from backends.errors import InputError
from orchestrator.inputs.expand import Arm
from orchestrator.inputs.hub import cache
from orchestrator.inputs.models import Model
from orchestrator.measuring.environment import usable_threads
from orchestrator.planning.cards import visible
from orchestrator.planning.drafter_shape import drafter_shape
from orchestrator.planning.headers import read_headers
from orchestrator.up.memory import GIB, Space, budget, free_disk, published_size

VLLM_SHARE = 0.92
"""Of total memory, which vLLM takes unless told otherwise."""
SPARE = 0.02
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
NEVER_OVERCOMMIT = "2"


def memory_arguments(arm: Arm, device: Device, space: Space | None) -> tuple[str, ...]:
    """vLLM checks its share of *total* against *free* memory: a share that others leave."""
    flag = "--gpu-memory-utilization"
    if arm.backend != "vllm" or device != "cuda" or space is None:
        return ()
    share = space.free / space.total - SPARE
    if share >= VLLM_SHARE or any(word.split("=")[0] == flag for word in arm.engine_args):
        return ()
    return (flag, f"{max(share, 0.05):.2f}")


def machine_findings(spec: ServeSpec, backend: str) -> Iterator[Finding]:
    yield from _drafter(spec)
    yield from _attention(spec, backend)
    if spec.threads is not None and spec.threads > (here := usable_threads()):
        yield Finding(
            "warning",
            "threads",
            f"{spec.threads} threads on {here} CPUs wait for each other.",
            f"Ask for {here} at most.",
        )
    if spec.device == "cpu" and _read(OVERCOMMIT) == NEVER_OVERCOMMIT:
        yield Finding(
            "warning",
            "overcommit",
            "the kernel never overcommits memory, and engines map more than they use.",
            "If it dies with `unable to mmap`: sysctl vm.overcommit_memory=1",
        )


def room_findings(
    arm: Arm, spec: ServeSpec, model: Model, space: Space | None
) -> Iterator[Finding]:
    """Memory and disk that a measurement would not find. `up` refuses for the same reasons."""
    needs = budget(arm.backend, spec, model, space)
    if space is not None and not needs.fits:
        parts = ", ".join(f"{p.name} {p.size / GIB:.1f}" for p in needs.parts if p.size is not None)
        yield Finding(
            "warning",
            "memory",
            f"needs about {needs.needed / GIB:.1f} GiB ({parts}), and of {space.name} "
            f"{space.free / GIB:.1f} GiB are free.",
            "Free memory, shorten serve.context_length, or choose a smaller quantisation.",
        )
    elif share := memory_arguments(arm, spec.device, space):
        assert space is not None
        yield Finding(
            "warning",
            "free-memory",
            f"vLLM takes {VLLM_SHARE:.0%} of all memory and refuses to start with less free; "
            f"{space.free / GIB:.1f} of {space.total / GIB:.1f} GiB are.",
            f"Free it, or give all of vLLM's arms engine_args: [{', '.join(share)}].",
        )
    parts_ = [spec.target, *([spec.drafter.weights] if spec.drafter else [])]
    sizes = [published_size(w, model) or 0 for w in parts_ if w.fetch is not None]
    if sum(sizes) > (free := free_disk(cache())):
        yield Finding(
            "warning",
            "disk",
            f"{sum(sizes) / GIB:.1f} GiB are to be fetched, and {free / GIB:.1f} GiB are free at "
            f"{cache()}.",
            "Make room there, or set HF_HUB_CACHE to a folder on another disk.",
        )


def _drafter(spec: ServeSpec) -> Iterator[Finding]:
    """The method against what the drafter's tensors were trained for."""
    head = spec.drafter
    if head is None or head.weights.fetch is not None or head.weights.dummy:
        return
    try:
        shape = drafter_shape(read_headers(Path(head.weights.path)))
    except InputError as error:
        # A measurement tries it, and its arm then says what the engine makes of it.
        level: Level = "error" if spec.purpose == "serve" else "warning"
        yield Finding(level, "drafter", f"the drafter {error.message}", "Fetch it again.")
        return
    method = "dflash" if shape.family == "dflash2" else shape.family
    if method != head.family:
        yield Finding(
            "error",
            "method",
            f"{head.weights.path} holds a {shape.family} drafter, not {head.family}.",
            f"Name it under drafters.{method} of the model file, and use speculation {method}.",
        )


def _attention(spec: ServeSpec, backend: str) -> Iterator[Finding]:
    if spec.device != "cuda" or backend != "vllm" or spec.drafter is None:
        return
    names = [gpu["name"] for gpu in visible() or []]
    if any("GB10" in name for name in names) and not any(
        "attention" in word for word in spec.extra_args
    ):
        yield Finding(
            "warning",
            "draft-attention",
            "FlashAttention 2 has failed with a drafter on GB10 (device assert in varlen).",
            "If it does: a recipe with engine_args [--attention-backend, TRITON_ATTN]",
        )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None
