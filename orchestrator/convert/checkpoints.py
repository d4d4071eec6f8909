"""What is to be converted: a folder, a repository of the hub, or a name museorch knows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from backends.errors import InputError
from orchestrator.gguf.stored import stored_tensors
from orchestrator.inputs import hub
from orchestrator.inputs.models import LoadedModel, TargetSpec, load_model, model_names
from orchestrator.planning.drafter_shape import FAMILIES
from orchestrator.planning.headers import json_object

TARGET_CLASS = "MuseGlimmerForConditionalGeneration"


@dataclass(frozen=True)
class Checkpoint:
    name: str
    """Files are called `NAME-QUANTISATION.gguf`."""
    folder: Path
    target: Path | None
    """For a drafter, the folder of its target; None for a target."""
    text_bytes: int
    """Of its weights in bf16, the vision tower left out."""


def checkpoints(target: str, drafters: Sequence[str]) -> tuple[Checkpoint, ...]:
    """The target, then the drafters. Raises InputError, or NotFetched for what is on the hub only.

    `drafters` may name a family where the target is a known name, as `dflash` of `tiny-muse`.
    """
    known = load_model(target, Path()) if target in model_names() else None
    name, folder = _registered(known, known.model.target) if known else _place(target)
    found = [_checkpoint(name, folder, None)]
    for word in drafters:
        specs = dict(known.model.drafters) if known else {}
        spec = next((s for family, s in specs.items() if family == word), None)
        if known is not None and spec is not None:
            name, place = _registered(known, spec)
        else:
            name, place = _place(word, sorted(specs))
        found.append(_checkpoint(name, place, folder))
    names = [item.name for item in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(
            f'two checkpoints are called "{twice[0]}", and their files would be too.',
            where="convert",
            fix="Rename a folder, or convert them into two folders.",
        )
    return tuple(found)


def _registered(known: LoadedModel, spec: TargetSpec) -> tuple[str, Path]:
    for artefact in spec.artefacts:
        if artefact.format != "hf":
            continue
        if artefact.hub is None:
            return spec.identity, known.base / str(artefact.path)
        found = hub.cached(artefact.hub)
        if found is None:
            raise hub.NotFetched(artefact.hub)
        return spec.identity, found
    raise InputError(f"{spec.identity} has no Hugging Face checkpoint to convert.", where="convert")


def _place(word: str, families: Sequence[str] = ()) -> tuple[str, Path]:
    """A folder, else `owner/name` on the hub."""
    folder = Path(word)
    if folder.is_dir():
        return folder.resolve().name, folder.resolve()
    if re.fullmatch(r"[\w.-]+/[\w.-]+", word) and not word.startswith("."):
        found = hub.cached(word)
        if found is None:
            raise hub.NotFetched(word)
        return word.split("/")[1], found
    names = [*families, *model_names()]
    close = difflib.get_close_matches(word, names, n=1)
    raise InputError(
        f'"{word}" is no folder, no OWNER/NAME of the hub and no name museorch knows.',
        where="convert",
        fix=f'Did you mean "{close[0]}"?' if close else f"Known names: {', '.join(names)}.",
    )


def _checkpoint(name: str, folder: Path, target: Path | None) -> Checkpoint:
    if (lacks := hub.missing(folder)) is not None:
        raise _incomplete(folder, lacks)
    architectures = json_object(folder / "config.json").get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    wanted = TARGET_CLASS if target is None else "a DFlash or DSpark drafter"
    if architecture != TARGET_CLASS if target is None else str(architecture) not in FAMILIES:
        raise InputError(
            f"its architecture is {architecture}, not {wanted}.",
            where=str(folder),
            fix="Give the target first, and each drafter with --drafter.",
        )
    if target is None and not (folder / "tokenizer.json").exists():
        raise _incomplete(folder, "tokenizer.json")
    stored = stored_tensors(folder)
    sizes = [prod(tensor.shape) for name, tensor in stored.items() if "vision" not in name]
    return Checkpoint(name, folder, target, 2 * sum(sizes))


def _incomplete(folder: Path, lacks: str) -> InputError:
    what = f"is no whole checkpoint: {lacks} is missing."
    return InputError(what, where=str(folder), fix="Fetch it again.")
