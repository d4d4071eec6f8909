"""Make dummy weights in museorch's cache, unless they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from backends.base import Weights
from backends.errors import InputError
from orchestrator.dummy.folder import write_folder
from orchestrator.dummy.place import Role
from orchestrator.inputs.expand import Arm
from orchestrator.inputs.models import LoadedModel


def make(model: LoadedModel, arms: Iterable[Arm], report: Callable[[str], None]) -> None:
    """What these arms are served from. Raises EngineError where the disk is too small."""
    wanted: dict[str, tuple[Role, Weights]] = {}
    for arm in arms:
        wanted[arm.target.path] = ("target", arm.target)
        if arm.drafter is not None:
            wanted[arm.drafter.weights.path] = (arm.drafter.family, arm.drafter.weights)
    for role, weights in wanted.values():
        path = Path(weights.path)
        if not weights.dummy or _complete(path):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if weights.format == "hf":
            write_folder(path, model, role)
        else:
            from orchestrator.dummy.gguf_file import write_gguf  # loads numpy, which no plan needs

            write_gguf(path, model, role, weights.quantisation, report)


def _complete(path: Path) -> bool:
    """Both get their names once they are whole; a copy of a file may have been cut off."""
    if path.suffix != ".gguf" or not path.is_file():
        return path.is_dir()
    from orchestrator.gguf.contents import read

    try:
        contents = read(path)
    except InputError:
        return False
    return contents.bytes >= contents.needed_bytes
