"""What only this machine can say against a plan: its kernel, its GPU, the drafter's own headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backends.base import Device, Finding, ServeSpec
from backends.errors import InputError
from orchestrator.cards import visible
from orchestrator.drafter_shape import drafter_shape
from orchestrator.expand import Arm
from orchestrator.headers import read_headers
from orchestrator.up.memory import Space

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
    if spec.device == "cpu" and _read(OVERCOMMIT) == NEVER_OVERCOMMIT:
        yield Finding(
            "warning",
            "overcommit",
            "the kernel never overcommits memory, and engines map more than they use.",
            "If it dies with `unable to mmap`: sysctl vm.overcommit_memory=1",
        )


def _drafter(spec: ServeSpec) -> Iterator[Finding]:
    """The method against what the drafter's tensors were trained for."""
    head = spec.drafter
    if head is None or head.weights.fetch is not None or head.weights.dummy:
        return
    try:
        shape = drafter_shape(read_headers(Path(head.weights.path)))
    except InputError as error:
        yield Finding("error", "drafter", f"the drafter {error.message}", "Fetch it again.")
        return
    if shape.family == "dflash2" and head.family == "dflash":
        return
    if shape.family != head.family:
        yield Finding(
            "error",
            "method",
            f"{head.weights.path} holds a {shape.family} drafter, not {head.family}.",
            f"Use --speculation {shape.family}.",
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
