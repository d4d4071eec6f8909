"""What the files of an environment say about each patch. Reads, never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from backends import BACKENDS
from backends.base import Device
from backends.patch import Evidence, Patch, parse_version
from backends.sglang import patches as sglang
from backends.vllm import patches as vllm
from orchestrator.patching import journal as book
from orchestrator.patching.edits import digest, first_line, occurrences
from orchestrator.patching.journal import Entry, Journal
from orchestrator.patching.transaction import read

State = Literal["applied", "needed", "not needed", "cannot tell", "broken"]

NATIVE = {
    "vllm": (vllm.NATIVE, vllm.FIRST_NATIVE),
    "sglang": (sglang.NATIVE, sglang.FIRST_NATIVE),
}


@dataclass(frozen=True)
class PatchStatus:
    id: str
    title: str
    state: State
    evidence: str
    """What was found that says so."""


def installed_version(packages: Path, engine: str) -> str | None:
    """The engine's version by its package metadata, None where there is none."""
    for name in (one.replace("-", "_") for one in BACKENDS[engine].distributions):
        for folder in sorted(packages.glob(f"{name}-*.dist-info")):
            return folder.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return None


def missing_target(packages: Path, engine: str) -> str | None:
    """Why no patch helps: the engine does not know Muse Glimmer. None where it does."""
    evidence, first = NATIVE[engine]
    if _found(packages, evidence):
        return None
    return (
        f"{engine} {installed_version(packages, engine) or '(unknown version)'} does not know Muse "
        f"Glimmer, and no patch set makes it serve it. The first release that does is {first}."
    )


def status(
    packages: Path, patches: Iterable[Patch], device: Device | None = None
) -> tuple[PatchStatus, ...]:
    """One line per patch. PatchError only where the journal itself cannot be read.

    `device` is what the engine is built for: what builds for another run counts as not needed.
    """
    journal = book.load(packages)
    found = [(patch, inspect(packages, patch, journal)) for patch in patches]
    return tuple(
        replace(
            state,
            state="not needed",
            evidence=f"the fault is there, but only builds for {' and '.join(patch.devices)} "
            "run that code",
        )
        if state.state == "needed" and device is not None and device not in patch.devices
        else state
        for patch, state in found
    )


def inspect(packages: Path, patch: Patch, journal: Journal) -> PatchStatus:
    def result(state: State, evidence: str) -> PatchStatus:
        return PatchStatus(patch.id, patch.title, state, evidence)

    if any(move.file in patch.files for move in journal.pending):
        return result("broken", "a change was cut off; `patch apply` or `patch revert` repairs it")
    entry = next((entry for entry in journal.entries if entry.id == patch.id), None)
    version = installed_version(packages, patch.engine)
    if entry is not None and not is_stale(packages, journal, entry, version):
        changed = changed_files(packages, journal, entry)
        if changed:
            return result("broken", f"changed since it was patched: {', '.join(changed)}")
        return result("applied", f"{entry.applied_at}, as the journal says")

    known = f"{patch.engine} {version}" if version else patch.engine
    for fix in patch.fixed_by:
        if _found(packages, fix):
            since = f" (since {patch.until})" if patch.until else ""
            return result("not needed", f"{known} has its own fix{since}: {fix.file}")
    for condition in patch.precondition:
        if not _found(packages, condition):
            return result("not needed", f"{known} has no {condition.text!r} in {condition.file}")

    if patch.since is not None and version is not None and _older(version, patch.since):
        return result("cannot tell", f"its texts are those of {patch.since} and later")

    contents = {file: read(packages, file) for file in patch.files}
    missing = [file for file, content in contents.items() if content is None]
    if missing:
        return result("cannot tell", f"{known} has no {', '.join(missing)}")
    counts = [(edit, occurrences(contents[edit.file] or b"", edit.find)) for edit in patch.edits]
    if all(count == 1 for _, count in counts):
        return result("needed", f"{len(counts)} of {len(counts)} texts found exactly once")
    if all(_by_hand(contents[edit.file] or b"", edit.find, edit.replace) for edit in patch.edits):
        return result("applied", "the patched text is there, but not by museorch")
    wrong = [
        f"{edit.file}: the text from {first_line(edit)} occurs {count} times"
        for edit, count in counts
        if count != 1
    ]
    return result("cannot tell", f"{wrong[0]}, not once")


def verify(packages: Path) -> tuple[str, ...]:
    """Every difference between the journal and the files; empty where all is as recorded."""
    journal = book.load(packages)
    if journal.pending:
        files = ", ".join(move.file for move in journal.pending)
        return (f"a change was cut off: {files}",)
    return tuple(
        f"{entry.id}: {file} is not as it was patched"
        for entry in journal.entries
        for file in changed_files(packages, journal, entry)
    )


def is_stale(packages: Path, journal: Journal, entry: Entry, version: str | None) -> bool:
    """Whether the engine was installed anew over the patch: another version, or the originals."""
    if entry.version != version:
        return bool(changed_files(packages, journal, entry))
    return all(
        (content := read(packages, record.file)) is not None
        and digest(content) == journal.originals[record.file]
        for record in entry.files
    )


def changed_files(packages: Path, journal: Journal, entry: Entry) -> Sequence[str]:
    changed = []
    for record in entry.files:
        content = read(packages, record.file)
        if content is None or digest(content) != journal.expected(record.file):
            changed.append(record.file)
    return changed


def _older(version: str, since: str) -> bool:
    return parse_version(version) < parse_version(since)


def _found(packages: Path, evidence: Evidence) -> bool:
    content = read(packages, evidence.file)
    return content is not None and occurrences(content, evidence.text) > 0


def _by_hand(content: bytes, find: str, replace: str) -> bool:
    return bool(replace) and occurrences(content, replace) == 1 and find not in replace
