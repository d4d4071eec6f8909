"""Bring an environment from one journal to another: all files, or none.

The journal names every file that is about to change before the first one does. A run that is cut
off leaves that list behind, and the next one puts the files back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from backends.errors import PatchError
from orchestrator.patching import journal as book
from orchestrator.patching.edits import check_syntax, digest, edited, replayed
from orchestrator.patching.journal import Entry, FileRecord, Journal, Move


def read(packages: Path, file: str) -> bytes | None:
    """None where there is no such file."""
    try:
        return (packages / file).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PatchError(
            f"cannot be read ({error.strerror}).", where=str(packages / file)
        ) from None


def rebuilt(
    packages: Path, old: Journal, entries: Iterable[Entry]
) -> tuple[Journal, Mapping[str, bytes]]:
    """The journal and the file contents that `entries`, applied in order, lead to.

    Works from the originals, so an entry may be left out of the middle. PatchError where an edit
    does not fit.
    """
    originals: dict[str, bytes] = {}
    contents: dict[str, bytes] = {}
    for file in old.originals:
        originals[file] = contents[file] = book.original(packages, old, file)
    done = []
    for entry in entries:
        records = []
        for file in dict.fromkeys(record.file for record in entry.edits):
            if file not in contents:
                content = read(packages, file)
                if content is None:
                    raise PatchError("no such file.", where=str(packages / file))
                originals[file] = contents[file] = content
            before = contents[file]
            for record in entry.edits:
                if record.file == file:
                    contents[file] = edited(contents[file], record.edit())
            check_syntax(file, before, contents[file])
            records.append(
                FileRecord(file=file, before=digest(before), after=digest(contents[file]))
            )
        done.append(entry.model_copy(update={"files": tuple(records)}))
    touched = {record.file for entry in done for record in entry.files}
    journal = Journal(
        entries=tuple(done),
        originals={file: digest(originals[file]) for file in originals if file in touched},
    )
    return journal, contents


def commit(packages: Path, old: Journal, new: Journal, contents: Mapping[str, bytes]) -> None:
    """Write `contents`, then `new`. After a PatchError the files are as they were."""
    moves = []
    new_originals = []
    for file, content in contents.items():
        current = read(packages, file)
        if current is None:
            raise PatchError("no such file.", where=str(packages / file))
        if current != content:
            _check_writable(packages / file)
            moves.append(Move(file=file, before=digest(current), after=digest(content)))
            if file not in old.originals:
                new_originals.append(current)
    under_way = old.model_copy(
        update={"pending": tuple(moves), "originals": {**new.originals, **old.originals}}
    )
    if moves:
        for content in new_originals:
            book.keep_original(packages, content)
        book.save(packages, under_way)
        try:
            for move in moves:
                _write(packages / move.file, contents[move.file])
        except OSError as error:
            undo(packages, under_way)
            raise PatchError(
                f"cannot be written ({error.strerror}); the change was taken back.",
                where=str(error.filename),
            ) from None
    if moves or new != old:
        book.save(packages, new)


def undo(packages: Path, journal: Journal) -> Journal:
    """Put the files of a change that was cut off back to what the entries say."""
    for move in journal.pending:
        current = read(packages, move.file)
        if current is None or digest(current) not in (move.before, move.after):
            raise PatchError(
                "an earlier change was cut off here and the file was changed since.",
                where=str(packages / move.file),
                fix=f"Install the engine again and delete {packages / book.FOLDER}.",
            )
    for move in journal.pending:
        content = replayed(book.original(packages, journal, move.file), journal.edits(move.file))
        try:
            _write(packages / move.file, content)
        except OSError as error:
            raise PatchError(
                f"cannot be written ({error.strerror}), and the change stays half done.",
                where=str(packages / move.file),
                fix="Free some space or make it writable; then the next `museorch patch revert` "
                "or `apply` puts the files back.",
            ) from None
    touched = {record.file for entry in journal.entries for record in entry.files}
    before = journal.model_copy(
        update={
            "pending": (),
            "originals": {f: sha for f, sha in journal.originals.items() if f in touched},
        }
    )
    book.save(packages, before)
    return before


def _write(path: Path, content: bytes) -> None:
    book.write_atomic(path, content, like=path)
    # Python compares a compiled file with the second of its source's change, which a quick
    # apply and revert can share.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def _check_writable(path: Path) -> None:
    writable = path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if not writable or not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise PatchError(
            "read-only, so it cannot be patched; nothing was changed.",
            where=str(path),
            fix=f"Make it writable (chmod u+w {path}) or use an environment that museorch owns.",
        )
