"""Fit the catalogue's signatures to the lines of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from orchestrator.diagnose.catalogue import Pattern, Signature, SignatureFile, any_fits, find
from orchestrator.diagnose.entries import Entry

_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}(?:[a-z.+-][\w.+-]{0,40})?")


@dataclass(frozen=True)
class Match:
    signature: Signature
    engine: str | None
    entry: Entry
    order: int
    """Position of the entry in what was read."""


@dataclass(frozen=True)
class Engine:
    name: str | None
    version: str | None


def detect(log: Iterable[Entry], files: Sequence[SignatureFile]) -> Engine:
    """Which engine wrote this log, and its version where the log tells."""
    hits = {file.engine: 0 for file in files if file.engine}
    versions: dict[str, str] = {}
    for entry in log:
        low = entry.text.lower()
        for file in files:
            if file.engine is None:
                continue
            hits[file.engine] += any(marker.lower() in low for marker in file.markers)
            if file.engine not in versions:
                for prefix in file.version_after:
                    at = low.find(prefix.lower())
                    found = _VERSION.match(low, at + len(prefix)) if at >= 0 else None
                    if found:
                        versions[file.engine] = found[0].rstrip(".-+")
    name = max(hits, key=lambda engine: hits[engine], default=None)
    if name is None or not hits[name]:
        return Engine(None, None)
    return Engine(name, versions.get(name))


@dataclass
class _Seen:
    first: tuple[int, Entry] | None = None
    good: int = 0
    total: int = 0


@dataclass
class _Progress:
    """What has been seen of one signature."""

    patterns: list[_Seen] = field(default_factory=list)
    requires: set[int] = field(default_factory=set)
    excluded: bool = False


def matches(
    log: Iterable[Entry], files: Sequence[SignatureFile], engine: Engine, benign: Sequence[str]
) -> list[Match]:
    """Signatures that fit, at most one per line, in order of their first line."""
    wanted = [
        (signature, file.engine)
        for file in files
        if file.engine in (None, engine.name) or engine.name is None
        for signature in file.signatures
        if _applies(signature, engine)
    ]
    progress = [_Progress([_Seen() for _ in s.patterns]) for s, _ in wanted]
    for order, entry in enumerate(log):
        if entry.role == "frame":  # source code, which also quotes messages that were not raised
            continue
        low = entry.text.lower()
        harmless = any_fits(benign, low)
        for (signature, _), state in zip(wanted, progress, strict=True):
            _look(signature, state, None if harmless else (order, entry), low)
    found = [
        Match(signature, owner, hit[1], hit[0])
        for (signature, owner), state in zip(wanted, progress, strict=True)
        if (hit := _verdict(signature, state))
    ]
    unique: dict[int, Match] = {}
    for match in found:
        unique.setdefault(match.order, match)
    return [unique[order] for order in sorted(unique)]


def _look(signature: Signature, state: _Progress, here: tuple[int, Entry] | None, low: str) -> None:
    for pattern, seen in zip(signature.patterns, state.patterns, strict=True):
        if here is None or not signature.reads(here[1].level):
            break
        if isinstance(pattern, Pattern):
            value = find(pattern.text, low)
            if value is None:
                continue
            seen.total += 1
            if not pattern.holds(value):
                continue
            seen.good += 1
        elif seen.first or find(pattern, low) is None:
            continue
        seen.first = seen.first or here
    for index, text in enumerate(signature.requires):
        if index not in state.requires and find(text, low) is not None:
            state.requires.add(index)
    if signature.unless and not state.excluded:
        state.excluded = any_fits(signature.unless, low)


def _verdict(signature: Signature, state: _Progress) -> tuple[int, Entry] | None:
    """The first line that shows the signature, when all its conditions hold."""
    if state.excluded or len(state.requires) < len(signature.requires):
        return None
    hits = [
        seen.first
        for pattern, seen in zip(signature.patterns, state.patterns, strict=True)
        if seen.first
        and (
            not isinstance(pattern, Pattern)
            or (seen.good >= pattern.times and 2 * seen.good > seen.total)
        )
    ]
    return min(hits, key=lambda hit: hit[0], default=None)


def _applies(signature: Signature, engine: Engine) -> bool:
    if signature.versions is None or engine.version is None:
        return True
    try:
        version = Version(engine.version)
    except InvalidVersion:
        return True
    return SpecifierSet(signature.versions).contains(version, prereleases=True)
