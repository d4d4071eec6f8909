"""Logits of the served model by transformers, computed in an engine's environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from backends.errors import EngineError, InputError
from orchestrator.distribution import reference_script
from orchestrator.distribution.rule import Array

CANDIDATES = 64
"""Likeliest tokens over which the bf16 noise is measured."""
TIMEOUT_S = 3600.0

Key = tuple[str, tuple[int, ...]]
"""Prompt id and prefix."""


@dataclass(frozen=True)
class Reference:
    """The logits after each prompt and prefix, in float32 arithmetic."""

    logits: Mapping[Key, Array]
    noise: float
    """Standard deviation of what computing in bf16 adds to a logit."""


def reference(
    python: Path,
    model: Path,
    prompts: Mapping[str, Sequence[int]],
    keys: Sequence[Key],
    *,
    threads: int | None,
) -> Reference:
    """Run the model on every prompt and prefix.

    Raises InputError when it does not fit into memory, EngineError when transformers fails on it.
    """
    _require_memory(model)
    grouped: dict[str, list[Key]] = defaultdict(list)
    for key in dict.fromkeys(keys):
        grouped[key[0]].append(key)
    with tempfile.TemporaryDirectory(prefix="museorch-audit-") as folder:
        out = Path(folder) / "logits.npz"
        asked = {
            "model": str(model),
            "out": str(out),
            "threads": threads if threads is not None else psutil.cpu_count(logical=False) or 1,
            "prompts": [
                {"ids": list(prompts[name]), "prefixes": [key[1] for key in mine]}
                for name, mine in grouped.items()
            ],
        }
        _run(python, asked)
        with np.load(out) as found:
            exact, rounded, rows = found["float32"], found["bf16"], found["bf16_rows"]
    ordered = [key for mine in grouped.values() for key in mine]
    return Reference(dict(zip(ordered, exact, strict=True)), _noise(exact[rows], rounded))


def _noise(exact: Array, rounded: Array) -> float:
    """Over the likeliest tokens, less what shifts all of a row alike."""
    likeliest = np.argsort(-exact, axis=1)[:, :CANDIDATES]
    difference = np.take_along_axis(rounded - exact, likeliest, axis=1)
    difference -= difference.mean(axis=1, keepdims=True)
    return float(np.sqrt(np.mean(np.square(difference))))


def _require_memory(model: Path) -> None:
    stored = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    needed, free = 3 * stored, psutil.virtual_memory().available
    if needed > free:
        raise InputError(
            f"the reference needs about {needed / 1e9:.0f} GB for float32 weights; "
            f"{free / 1e9:.0f} GB are free.",
            where=str(model),
            fix="Audit on a machine with more memory, or a smaller model such as tiny-muse.",
        )


def _run(python: Path, asked: Mapping[str, object]) -> None:
    try:
        done = subprocess.run(
            [str(python), "-I", reference_script.__file__],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"the reference could not be run: {error}.", where=str(python)) from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise EngineError(
            f"transformers could not give the reference: {last[0]}",
            where=str(python),
            fix="It needs a transformers that knows the model; see `museorch engines list`.",
        )
