"""Make dummy weights in museorch's cache, unless they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from backends.base import Weights
from backends.errors import EngineError, InputError
from orchestrator.dummy.folder import write_folder
from orchestrator.dummy.place import Role
from orchestrator.environments.engine_build import locked
from orchestrator.environments.engines import cache_root
from orchestrator.inputs.expand import Arm
from orchestrator.inputs.models import LoadedModel


def make(model: LoadedModel, arms: Iterable[Arm], report: Callable[[str], None]) -> None:
    """What these arms are served from. Raises EngineError where they cannot be written."""
    wanted: dict[str, tuple[Role, Weights]] = {}
    for arm in arms:
        wanted[arm.target.path] = ("target", arm.target)
        if arm.drafter is not None:
            wanted[arm.drafter.weights.path] = (arm.drafter.family, arm.drafter.weights)
    for role, weights in wanted.values():
        path = Path(weights.path)
        if not weights.dummy or _complete(path):
            continue
        with locked(cache_root() / "locks" / f"{path.name}.lock", report):
            try:
                _make(path, model, role, weights, report)
            except OSError as error:
                raise EngineError(
                    f"dummy weights cannot be written: {error.strerror}.",
                    where=str(error.filename or path),
                    fix="Make room, or set MUSEORCH_HOME to another folder.",
                ) from None


def _make(
    path: Path, model: LoadedModel, role: Role, weights: Weights, report: Callable[[str], None]
) -> None:
    if _complete(path):  # another museorch made it meanwhile
        return
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
