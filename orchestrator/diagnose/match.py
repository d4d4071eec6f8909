"""Fit the catalogue's signatures to the lines of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from orchestrator.diagnose.catalogue import Measured, Signature, SignatureFile
from orchestrator.diagnose.entries import Entry
from orchestrator.diagnose.patterns import PatternSet

_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}(?:[a-z.+-][\w.+-]{0,40})?")
_BANNER = 5000
"""Lines from the top in which the engine makes itself known."""


@dataclass(frozen=True)
class Match:
    signature: Signature
    entry: Entry
    order: int
    """Position of the entry in what was read."""


@dataclass(frozen=True)
class Engine:
    name: str | None
    version: str | None


def detect(log: Iterable[Entry], files: Sequence[SignatureFile]) -> Engine:
    """Which engine wrote this log, and its version where the log tells."""
    owners = [(file.engine, marker) for file in files if file.engine for marker in file.markers]
    hits = {owner: 0 for owner, _ in owners}
    markers = PatternSet([marker for _, marker in owners])
    versions: dict[str, str] = {}
    for entry in islice(log, _BANNER):
        low = entry.text.lower()
        for index, _ in markers.fitting(low):
            hits[owners[index][0]] += 1
        for file in files:
            if file.engine and file.engine not in versions and (found := _version(file, low)):
                versions[file.engine] = found
    name = max(hits, key=lambda engine: hits[engine], default=None)
    if name is None or not hits[name]:
        return Engine(None, None)
    return Engine(name, versions.get(name))


def _version(file: SignatureFile, low: str) -> str | None:
    for prefix in file.version_after:
        at = low.find(prefix.lower())
        if at >= 0 and (found := _VERSION.match(low, at + len(prefix))):
            return found[0].rstrip(".-+")
    return None


@dataclass
class _Seen:
    """Lines that showed one pattern of a signature."""

    first: tuple[int, Entry] | None = None
    good: int = 0
    total: int = 0


@dataclass
class _Progress:
    """What has been seen of one signature."""

    signature: Signature
    seen: dict[int, _Seen] = field(default_factory=dict)
    required: set[int] = field(default_factory=set)
    excluded: bool = False


def matches(
    log: Iterable[Entry], files: Sequence[SignatureFile], engine: Engine, benign: PatternSet
) -> list[Match]:
    """Signatures that fit, at most one per line (the first in the catalogue), in line order."""
    wanted = [
        _Progress(signature)
        for file in files
        if file.engine in (None, engine.name) or engine.name is None
        for signature in file.signatures
        if _applies(signature, engine)
    ]
    probes = [probe for progress in wanted for probe in _probes(progress)]
    patterns = PatternSet([text for text, *_ in probes])
    for order, entry in enumerate(log):
        if entry.role == "frame":  # source code, which also quotes messages that were not raised
            continue
        low = entry.text.lower()
        for index, value in patterns.fitting(low):
            _, progress, kind, number = probes[index]
            if kind == "requires":
                progress.required.add(number)
            elif kind == "unless":
                progress.excluded = True
            elif progress.signature.reads(entry.level) and not benign.fits(low):
                _note(progress, number, (order, entry), value)
    unique: dict[int, Match] = {}
    for progress in wanted:
        if hit := _verdict(progress):
            unique.setdefault(hit[0], Match(progress.signature, hit[1], hit[0]))
    return [unique[order] for order in sorted(unique)]


def _probes(progress: _Progress) -> Iterator[tuple[str, _Progress, str, int]]:
    signature = progress.signature
    for number, pattern in enumerate(signature.patterns):
        text = pattern.text if isinstance(pattern, Measured) else pattern
        yield text, progress, "shows", number
    for number, text in enumerate(signature.requires):
        yield text, progress, "requires", number
    for number, text in enumerate(signature.unless):
        yield text, progress, "unless", number


def _note(progress: _Progress, number: int, here: tuple[int, Entry], value: float) -> None:
    pattern = progress.signature.patterns[number]
    seen = progress.seen.setdefault(number, _Seen())
    seen.total += 1
    if isinstance(pattern, Measured) and not pattern.holds(value):
        return
    seen.good += 1
    seen.first = seen.first or here


def _verdict(progress: _Progress) -> tuple[int, Entry] | None:
    """The first line that shows the signature, when all its conditions hold."""
    signature = progress.signature
    if progress.excluded or len(progress.required) < len(signature.requires):
        return None
    hits = []
    for number, seen in progress.seen.items():
        pattern = signature.patterns[number]
        times = pattern.times if isinstance(pattern, Measured) else 1
        if seen.first and seen.good >= times and 2 * seen.good > seen.total:
            hits.append(seen.first)
    return min(hits, key=lambda hit: hit[0], default=None)


def _applies(signature: Signature, engine: Engine) -> bool:
    if signature.versions is None or engine.version is None:
        return True
    try:
        version = Version(engine.version)
    except InvalidVersion:
        return True
    return SpecifierSet(signature.versions).contains(version, prereleases=True)
