"""A drafter with a target, as the lint's rules see them, and what the published ones are like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backends.base import Finding
from orchestrator.planning.drafter_shape import (
    DrafterShape,
    TargetShape,
)

Method = Literal["dflash", "dspark"]


@dataclass(frozen=True)
class Published:
    """What the published drafters of one target were trained with."""

    layer_outputs: tuple[int, ...]
    sliding_window: int
    mask_token_id: int


PUBLISHED_VOCAB = 202048
"""What engines assume of a drafter that names no vocabulary, as the published one does."""


PUBLISHED = {
    # Muse Glimmer 30B by hidden size and layers: meta-models/Muse-Glimmer-30B-assistant.
    (6656, 52): Published((1, 13, 25, 37, 49), 2048, 201818),
}


@dataclass(frozen=True)
class Case:
    drafter: DrafterShape
    target: TargetShape
    method: Method | None
    draft_tokens: int | None

    @property
    def published(self) -> Published | None:
        return PUBLISHED.get((self.target.hidden_size, self.target.layers))


def error(code: str, text: str, fix: str | None) -> Finding:
    return Finding("error", code, text, fix)


def warning(code: str, text: str, fix: str | None) -> Finding:
    return Finding("warning", code, text, fix)
