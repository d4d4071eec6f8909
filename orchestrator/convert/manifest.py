"""What a GGUF was made from and how: `NAME.gguf.json` beside it.

The manifest is written before the file gets its name. So a file of museorch's always has one, and a
manifest whose file is missing or different belongs to something that was not finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Weights
from orchestrator.convert.checkpoints import Checkpoint
from orchestrator.planning.weight_files import fingerprint

SCHEMA = 1
CHUNK = 4 << 20
TOKENIZER = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
SMALL = (*TOKENIZER, "generation_config.json")


@dataclass(frozen=True)
class Origin:
    """What decides a file: equal origins make equal files."""

    source: Mapping[str, str]
    """Fingerprint of the weights, and sha256 of the small files beside them."""
    target: Mapping[str, str] | None
    """For a drafter: sha256 of the target's files that it takes."""
    converter: str

    def made_as(self, quantisation: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """As it stands in a manifest."""
        return {
            "quantisation": quantisation,
            "settings": dict(settings),
            "source": dict(self.source),
            "target": None if self.target is None else dict(self.target),
            "converter": self.converter,
        }


def origin(checkpoint: Checkpoint, converter: str) -> Origin:
    weights = Weights(str(checkpoint.folder), "hf", "bf16", checkpoint.name)
    source = {"weights": fingerprint(weights), **_hashes(checkpoint.folder, SMALL)}
    target = None if checkpoint.target is None else _hashes(checkpoint.target, TOKENIZER)
    return Origin(source, target, converter)


def _hashes(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    return {name: sha256(folder / name) for name in names if (folder / name).is_file()}


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def path_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def read(output: Path) -> dict[str, Any] | None:
    """The manifest of `output`; None where there is none that can be read."""
    try:
        found = json.loads(path_of(output).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def finished(output: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest of a file that is there, whole, and made as wanted; else None."""
    found = read(output)
    if found is None or found.get("origin") != wanted or not output.is_file():
        return None
    if output.stat().st_size != found.get("bytes") or sha256(output) != found.get("sha256"):
        return None
    return found


def finish(part: Path, output: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest, then give the file its name."""
    manifest = {
        "schema": SCHEMA,
        "file": output.name,
        "bytes": part.stat().st_size,
        "sha256": sha256(part),
        **facts,
    }
    _write(output, manifest)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(output)
    return manifest


def keep(output: Path) -> None:
    """Someone asked for this file, so it no longer goes when it has served its purpose."""
    found = read(output)
    if found is not None and found.get("intermediate"):
        _write(output, {**found, "intermediate": False})


def _write(output: Path, manifest: Mapping[str, Any]) -> None:
    place = path_of(output)
    draft = place.with_name(f".{place.name}.part")
    draft.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    draft.replace(place)
