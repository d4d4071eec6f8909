"""Apply and revert patches, and see to it that an arm has those it needs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path

from backends.errors import InputError, PatchError
from backends.patch import Patch
from orchestrator.patching import journal as book
from orchestrator.patching.edits import digest
from orchestrator.patching.journal import EditRecord, Entry, FileRecord, Journal
from orchestrator.patching.status import inspect, installed_version, is_stale, missing_target
from orchestrator.patching.transaction import commit, read, rebuilt, undo

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileHash:
    """SHA-256 of one patched file. `before` is None where someone else patched it."""

    path: str
    before: str | None
    after: str


@dataclass(frozen=True)
class AppliedPatch:
    """A patch that is in force, as a result records it."""

    id: str
    title: str
    engine: str
    engine_version: str | None
    files: tuple[FileHash, ...]


def apply(packages: Path, patches: Sequence[Patch]) -> tuple[AppliedPatch, ...]:
    """Apply what is needed of `patches`, all or none. Returns those then in force.

    A patch that the engine no longer needs is left out. PatchError where one does not fit.
    """
    with book.locked(packages):
        journal = _settled(packages)
        entries = list(journal.entries)
        for patch in patches:
            found = inspect(packages, patch, journal)
            if found.state in ("applied", "not needed"):
                continue
            if found.state != "needed":
                raise PatchError(
                    f"patch {patch.id} does not fit: {found.evidence}.",
                    where=str(packages),
                    fix="Nothing was changed.",
                )
            entries.append(_entry(patch, installed_version(packages, patch.engine)))
        new, contents = rebuilt(packages, journal, entries)
        commit(packages, journal, new, contents)
        return _in_force(packages, patches, new)


def revert(packages: Path, ids: Iterable[str] | None = None) -> tuple[str, ...]:
    """Take back patches, all of them by default. Returns the ids taken back.

    Files are then as they were, byte for byte, but for the patches that remain. InputError for an
    id that is not applied.
    """
    with book.locked(packages):
        journal = _settled(packages)
        present = [entry.id for entry in journal.entries]
        chosen = present if ids is None else list(ids)
        for name in chosen:
            if name not in present:
                raise InputError(
                    f"patch {name} is not applied.",
                    where=str(packages),
                    fix=f"Applied: {', '.join(present) or 'none'}.",
                )
        kept = [entry for entry in journal.entries if entry.id not in chosen]
        new, contents = rebuilt(packages, journal, kept)
        commit(packages, journal, new, contents)
        return tuple(chosen)


def ensure(
    packages: Path, patches: Sequence[Patch], *, owned: bool, in_place: bool
) -> tuple[AppliedPatch, ...]:
    """See to it that `patches` are in force, and return them with their hashes.

    Applies what is missing in an environment that museorch owns, or anywhere with `in_place`.
    PatchError otherwise, naming the command that applies them, and where the engine does not know
    the target at all.
    """
    if not patches:
        return ()
    note = missing_target(packages, patches[0].engine)
    if note is not None:
        raise PatchError(note, where=str(packages))
    if owned or in_place:
        return apply(packages, patches)
    journal = book.load(packages)
    missing = [
        patch.id
        for patch in patches
        if inspect(packages, patch, journal).state not in ("applied", "not needed")
    ]
    if missing:
        raise PatchError(
            f"this engine needs {len(missing)} patch(es) that it does not have: "
            f"{', '.join(missing)}.",
            where=str(packages),
            fix=(
                f"Run `{apply_command(packages, missing)}` first, or give --patch-in-place. "
                "`museorch patch revert` takes them back."
            ),
        )
    return _in_force(packages, patches, journal)


def apply_command(packages: Path, ids: Sequence[str]) -> str:
    """The exact command that applies `ids` to `packages`."""
    for folder in packages.parents:
        python = folder / "bin" / "python"
        if (folder / "pyvenv.cfg").exists() and python.exists():
            return f"museorch patch apply {' '.join(ids)} --python {python}"
    return f"museorch patch apply {' '.join(ids)} --packages {packages}"


def _settled(packages: Path) -> Journal:
    """The journal, with a cut-off change undone and overwritten patches struck off."""
    journal = book.load(packages)
    if journal.pending:
        names = ", ".join(move.file for move in journal.pending)
        journal = undo(packages, journal)
        log.warning("an earlier patch run was cut off; its files were put back: %s", names)
    stale = [
        entry
        for entry in journal.entries
        if is_stale(packages, journal, entry, installed_version(packages, entry.engine))
    ]
    if stale:
        journal = _without(journal, stale)
        book.save(packages, journal)
    _refuse_foreign_changes(packages, journal)
    return journal


def _without(journal: Journal, stale: Sequence[Entry]) -> Journal:
    entries = tuple(entry for entry in journal.entries if entry not in stale)
    touched = {record.file for entry in entries for record in entry.files}
    kept = {file: sha for file, sha in journal.originals.items() if file in touched}
    return Journal(entries=entries, originals=kept)


def _refuse_foreign_changes(packages: Path, journal: Journal) -> None:
    for file in journal.originals:
        content = read(packages, file)
        if content is None or digest(content) != journal.expected(file):
            raise PatchError(
                "changed by something else since museorch patched it.",
                where=str(packages / file),
                fix="Install the engine again (pip install --force-reinstall --no-deps), then "
                "run the command again.",
            )


def _entry(patch: Patch, version: str | None) -> Entry:
    try:
        own = package_version("museorch")
    except PackageNotFoundError:
        own = "unknown"
    return Entry(
        id=patch.id,
        title=patch.title,
        engine=patch.engine,
        version=version,
        applied_at=datetime.now(UTC).isoformat(timespec="seconds"),
        museorch=own,
        edits=tuple(
            EditRecord(file=edit.file, find=edit.find, replace=edit.replace) for edit in patch.edits
        ),
        files=(),
    )


def _in_force(
    packages: Path, patches: Sequence[Patch], journal: Journal
) -> tuple[AppliedPatch, ...]:
    entries = {entry.id: entry for entry in journal.entries}
    applied = []
    for patch in patches:
        version = installed_version(packages, patch.engine)
        entry = entries.get(patch.id)
        if entry is not None:
            files = tuple(_hash(record) for record in entry.files)
        elif inspect(packages, patch, journal).state == "applied":
            files = tuple(
                FileHash(file, None, digest(read(packages, file) or b"")) for file in patch.files
            )
        else:
            continue
        applied.append(AppliedPatch(patch.id, patch.title, patch.engine, version, files))
    return tuple(applied)


def _hash(record: FileRecord) -> FileHash:
    return FileHash(record.file, record.before, record.after)
