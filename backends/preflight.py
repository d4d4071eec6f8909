"""What the plans of several engines say alike. Pure, as everything in `backends` is."""

from __future__ import annotations

from collections.abc import Iterator

from backends.base import Finding, ServeSpec
from backends.patch import parse_version

PACKAGES = ("torch", "transformers", "safetensors", "tokenizers")
"""Of Python, without which neither engine loads a checkpoint."""


def conditions(spec: ServeSpec) -> dict[str, str]:
    """What every plan of museorch fixes in the same way on all engines.

    An engine argument or a variable can undo it, so arms that set any are told apart by them.
    """
    variables = [f"{name}={value}" for name, value in sorted(spec.extra_env.items())]
    return {
        "prefix_cache": "on" if spec.purpose == "serve" else "off",
        "graph_mode": "none (CPU)" if spec.device == "cpu" else "engine default",
        "engine_args": " ".join([*variables, *spec.extra_args]),
    }


def too_old(engine: str, version: str, first: str) -> Iterator[Finding]:
    """An engine before the release that brought Muse Glimmer's architecture."""
    if parse_version(version) < parse_version(first):
        yield Finding(
            # A build from a checkout without tags calls itself 0.1.dev1, whatever it holds.
            "warning" if ".dev" in version else "error",
            "engine-version",
            f"{engine} {version} does not know Muse Glimmer; the first release that does is "
            f"{first}.",
            "Install a newer one with `museorch engines install`.",
        )


def above_block(spec: ServeSpec) -> Iterator[Finding]:
    """A K that the drafter's block has no positions for."""
    head, k = spec.drafter, spec.draft_tokens
    if head is not None and k is not None and k > head.max_draft_tokens:
        yield Finding(
            "error",
            "draft-tokens-above-block",
            f"K {k} is above the {head.max_draft_tokens} drafts of the {head.family} drafter's "
            f"block of {head.block_size}.",
            f"Use 1 to {head.max_draft_tokens}.",
        )
