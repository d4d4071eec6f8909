"""Config overlays: a folder of links to a checkpoint plus a config.json with some keys set."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Overlay
from backends.errors import InputError
from orchestrator.planning.headers import json_object

CONFIG = "config.json"
_MISSING = object()


@dataclass(frozen=True)
class KeyChange:
    """One key of config.json, dotted where nested, and what the overlay makes of it."""

    key: str
    value: Any
    was: Any
    """The value in the checkpoint, None where it has none."""


def changes(overlay: Overlay) -> tuple[KeyChange, ...]:
    """What the overlay changes in its checkpoint's config; empty where nothing has to change.

    InputError where the config cannot be read, or has neither an aliased key nor its source.
    """
    config = json_object(Path(overlay.source) / CONFIG)
    found = []
    for key, source in overlay.aliases.items():
        if _get(config, key) is not _MISSING:
            continue
        value = _get(config, source)
        if value is _MISSING:
            raise InputError(
                f"has neither {key} nor {source}, and the engine needs one.",
                where=str(Path(overlay.source) / CONFIG),
                fix="Add it as the published drafter has it, or use another checkpoint.",
            )
        found.append(KeyChange(key, value, None))
    for key, value in overlay.changes.items():
        was = _get(config, key)
        if was != value:
            found.append(KeyChange(key, value, None if was is _MISSING else was))
    return tuple(found)


def materialise(overlay: Overlay, parent: Path) -> Path:
    """The overlay's folder below `parent`, made if it is not there yet. An absolute path.

    Its name tells the checkpoint, its files and the new config apart, so a folder that exists is
    complete and may be in use.
    """
    source = Path(overlay.source).resolve()
    parent = parent.resolve()  # the engine runs in a folder of its own
    config = json_object(source / CONFIG)
    for change in changes(overlay):
        _set(config, change.key, change.value)
    text = json.dumps(config, indent=1) + "\n"
    names = sorted(entry.name for entry in source.iterdir() if entry.name != CONFIG)
    mark = hashlib.sha256("\n".join([str(source), *names, text]).encode()).hexdigest()[:12]
    folder = parent / f"{source.name}-{mark}"
    if folder.exists():
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{source.name}-", dir=parent))
    try:
        work.chmod(0o755)
        for name in names:
            (work / name).symlink_to(source / name)
        (work / CONFIG).write_text(text, encoding="utf-8")
        os.replace(work, folder)
    except OSError as error:
        # Another run may just have made the same folder.
        if not folder.exists():
            raise InputError(
                f"the overlay cannot be written ({error.strerror}).", where=str(folder)
            ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _get(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _set(config: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for part in parents:
        inner = config.get(part)
        if not isinstance(inner, dict):
            inner = config[part] = {}
        config = inner
    config[last] = value
