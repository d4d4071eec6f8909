"""The record of what museorch changed in an engine's packages, kept beside them.

`<packages>/museorch-patches/` holds `journal.json` and `originals/<sha256>`, the files as they were
before the first patch. It goes away with the last patch. The journal carries the edits themselves,
so a later museorch can revert what an earlier one applied.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from backends.errors import PatchError
from backends.patch import Edit
from orchestrator.patching.edits import digest

FOLDER = "museorch-patches"
NAME = "journal.json"
_LOCK_WAIT_S = 30.0


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EditRecord(_Record):
    file: str
    find: str
    replace: str

    def edit(self) -> Edit:
        return Edit(self.file, self.find, self.replace)


class FileRecord(_Record):
    """One file of one patch, with the SHA-256 of its content before and after that patch."""

    file: str
    before: str
    after: str


class Entry(_Record):
    """One applied patch."""

    id: str
    title: str
    engine: str
    version: str | None
    applied_at: str
    """UTC, ISO 8601."""
    museorch: str
    edits: tuple[EditRecord, ...]
    files: tuple[FileRecord, ...]


class Move(_Record):
    """A file on its way from one content to another, by SHA-256."""

    file: str
    before: str
    after: str


class Journal(_Record):
    schema_number: int = 1
    entries: tuple[Entry, ...] = ()
    originals: dict[str, str] = {}
    """File to the SHA-256 of its content before the first patch."""
    pending: tuple[Move, ...] = ()
    """Not empty while a change is under way, or after it was cut off."""

    @model_validator(mode="after")
    def _has_originals(self) -> Journal:
        changed = {record.file for entry in self.entries for record in entry.files}
        if lost := (changed | {move.file for move in self.pending}) - self.originals.keys():
            raise ValueError(f"the original of {min(lost)} is not recorded")
        return self

    def edits(self, file: str) -> list[Edit]:
        return [
            record.edit() for entry in self.entries for record in entry.edits if record.file == file
        ]

    def expected(self, file: str) -> str | None:
        """SHA-256 that the file has after the last entry that touches it."""
        last: str | None = self.originals.get(file)
        for entry in self.entries:
            for record in entry.files:
                if record.file == file:
                    last = record.after
        return last


def load(packages: Path) -> Journal:
    path = packages / FOLDER / NAME
    try:
        return Journal.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return Journal()
    except OSError as error:
        reason = error.strerror
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
    raise PatchError(
        f"the patch journal cannot be read ({reason}).",
        where=str(path),
        fix="Install the engine again into a fresh environment.",
    )


def save(packages: Path, journal: Journal) -> None:
    """Replace the journal in one step. An empty one takes its folder away."""
    folder = packages / FOLDER
    with _errors(packages):
        if not journal.entries and not journal.pending:
            (folder / NAME).unlink(missing_ok=True)  # first: without the originals it is a riddle
            shutil.rmtree(folder, ignore_errors=True)
            return
        folder.mkdir(exist_ok=True)
        write_atomic(folder / NAME, journal.model_dump_json(indent=1).encode())


def keep_original(packages: Path, content: bytes) -> None:
    path = packages / FOLDER / "originals" / digest(content)
    with _errors(packages):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_atomic(path, content)


@contextmanager
def _errors(packages: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PatchError(
            f"the patch journal cannot be written ({error.strerror}).",
            where=str(packages / FOLDER),
            fix="Free some space or make the folder writable, then run the command again.",
        ) from None


def original(packages: Path, journal: Journal, file: str) -> bytes:
    """The file as it was before the first patch. PatchError where it was lost."""
    path = packages / FOLDER / "originals" / journal.originals[file]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PatchError(
            f"the kept original of {file} cannot be read ({error.strerror}).", where=str(path)
        ) from None
    if digest(content) != journal.originals[file]:
        raise PatchError(f"the kept original of {file} is damaged.", where=str(path))
    return content


def write_atomic(path: Path, content: bytes, like: Path | None = None) -> None:
    """Write beside `path`, flush to disk, then rename: readers see the old or the new file."""
    temporary = path.with_name(f".{path.name}.museorch")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if like is not None:
            shutil.copymode(like, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(packages: Path) -> Iterator[None]:
    """Keep a second museorch from changing the same packages at the same time."""
    try:
        handle = os.open(packages, os.O_RDONLY)
    except OSError as error:
        raise PatchError(
            f"no such package folder ({error.strerror}).", where=str(packages)
        ) from None
    try:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PatchError(
                        f"another museorch has held it for {_LOCK_WAIT_S:.0f} s.",
                        where=str(packages),
                        fix="Wait for it to end, or end it.",
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
