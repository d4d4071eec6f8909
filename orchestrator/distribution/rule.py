"""The sampling rule, exactly: temperature, then top-k, then top-p on what top-k left."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from backends.base import Sampling

Array: TypeAlias = npt.NDArray[np.float64]


def probabilities(logits: Array, sampling: Sampling) -> Array:
    """Next-token probabilities for logits [..., V] at a temperature above 0.

    A token stays in while the tokens more likely than it hold less than top_p of the mass that
    top-k left. Equal logits stay in or out together.
    """
    scaled = logits / sampling.temperature
    ordered = -np.sort(-scaled, axis=-1)
    if 0 < sampling.top_k < ordered.shape[-1]:
        ordered = ordered[..., : sampling.top_k]
    weights = np.exp(ordered - ordered[..., :1])
    before = np.cumsum(weights, axis=-1) - weights
    kept = before < sampling.top_p * weights.sum(axis=-1, keepdims=True)
    last = np.take_along_axis(ordered, kept.sum(axis=-1, keepdims=True) - 1, axis=-1)
    found: Array = np.where(scaled >= last, np.exp(scaled - ordered[..., :1]), 0.0)
    found /= found.sum(axis=-1, keepdims=True)
    return found
