"""Serve specs for the tests of the three backends."""

from __future__ import annotations

from typing import Any, Literal

from backends.base import Drafter, Request, Sampling, ServeSpec, Weights


def drafter(family: Literal["dflash", "dspark"], format_: Literal["hf", "gguf"]) -> Drafter:
    dspark = family == "dspark"
    return Drafter(
        family=family,
        weights=Weights(f"/m/{family}", format_, "bf16", family),
        block_size=16,
        max_draft_tokens=16 if dspark else 15,
        target_layer_ids=(1, 13, 25, 37, 49),
        sample_from_anchor=False if dspark else None,
    )


def spec(
    family: Literal["dflash", "dspark"] | None = None,
    *,
    format_: Literal["hf", "gguf"] = "hf",
    draft_format: Literal["hf", "gguf"] | None = None,
    **changes: Any,
) -> ServeSpec:
    head = drafter(family, draft_format or format_) if family else None
    values: dict[str, Any] = {
        "executable": "/engine",
        "engine_version": "0.32.0",
        "device": "cuda",
        "target": Weights("/m/target", format_, "bf16", "target"),
        "drafter": head,
        "draft_tokens": head.max_draft_tokens if head else None,
        "context_length": 4096,
        "slots": 4,
    }
    return ServeSpec(**{**values, **changes})


def option(argv: tuple[str, ...], name: str) -> str | None:
    """The value after a flag, or None without it."""
    return argv[argv.index(name) + 1] if name in argv else None


def ask(sampling: Sampling, *, fixed_length: bool = True) -> Request:
    return Request("p", (0, 5, 9), 32, sampling, 7, (1, 2), fixed_length)


GREEDY = Sampling(0.0)
WARM = Sampling(1.0, 0.95, 64)
