"""Which dummy weights an arm gets, and where they lie. Makes nothing, so planning is free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from backends import BACKENDS
from backends.base import Weights
from backends.errors import InputError
from orchestrator.environments.engines import cache_root
from orchestrator.inputs.models import LoadedModel, TargetSpec
from orchestrator.planning.headers import json_object

Role = Literal["target", "dflash", "dspark"]
QUANTISATIONS: Mapping[str, tuple[str, ...]] = {
    "hf": ("bf16",),
    "gguf": ("bf16", "q8_0", "q4_k_m"),
}
PREFIX = "dummy "
"""Before the identity, so that nothing takes them for the checkpoint."""
VERSION = 1
"""Of what is written. Other contents need another number, or old files are taken for new ones."""


def dummy_weights(model: LoadedModel, role: Role, backend: str, quantisation: str) -> Weights:
    """In the first format of the engine that has the quantisation; a drafter may get another.

    Raises InputError where there is none, or where the model file names no config.
    """
    formats = BACKENDS[backend].formats
    has = [(kind, quant) for kind in formats for quant in QUANTISATIONS[kind]]
    fitting = [one for one in has if one[1] == quantisation]
    if not fitting and role == "target":
        known = ", ".join(dict.fromkeys(quant for _, quant in has))
        raise InputError(
            f"no dummy weights in {quantisation} for {backend}.", fix=f"museorch makes: {known}."
        )
    kind, quant = (fitting or has)[0]
    mark = hashlib.sha256(
        json.dumps([VERSION, shape(model, role), shape(model, "target"), facts(model)]).encode()
    ).hexdigest()[:12]
    name = f"{model.model.name}-{role}-{quant}-{mark}{'.gguf' if kind == 'gguf' else ''}"
    return Weights(
        path=str(cache_root() / "dummy" / name),
        format="gguf" if kind == "gguf" else "hf",
        quantisation=quant,
        identity=PREFIX + part(model, role).identity,
        dummy=True,
    )


def part(model: LoadedModel, role: Role) -> TargetSpec:
    return model.model.target if role == "target" else model.model.drafters[role]


def shape(model: LoadedModel, role: Role) -> dict[str, Any]:
    """The config.json that the model file names."""
    named = part(model, role).config
    if named is None:
        raise InputError(
            f"{model.model.name} names no config for its {role}, which dummy weights need.",
            where=str(model.document.path),
            fix="Add `config:` with the path of its config.json.",
        )
    return json_object(Path(model.base / named))


def facts(model: LoadedModel) -> dict[str, Any]:
    """Of the model file, what goes into dummy weights beside the configs."""
    return {
        "vocab_size": model.model.vocab_size,
        "tokens": model.model.tokens.model_dump(mode="json"),
        "drafters": {
            name: spec.model_dump(mode="json", exclude={"artefacts"})
            for name, spec in model.model.drafters.items()
        },
    }
