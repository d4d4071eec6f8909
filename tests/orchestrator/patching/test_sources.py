"""Where each patch stands in the engines' real releases, and that docs/patches.md says so.

The slow test fetches the releases' wheels with pip and keeps the files it looks at in museorch's
cache. Only then are the table's states checked; its texts are checked always.
"""

from __future__ import annotations

import ast

import pytest

from orchestrator.patching import apply, revert, verify
from orchestrator.patching.document import NO_TARGET, parse, render
from orchestrator.patching.place import PATCHES
from tests.orchestrator.patching.table import DOCUMENT, releases, sources, states


def test_the_document_has_the_declared_texts() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == render(parse(text)), "run: python -m tests.orchestrator.patching.table"


def test_the_document_agrees_with_the_declared_ranges() -> None:
    shown = parse(DOCUMENT.read_text(encoding="utf-8"))
    for engine, versions in shown.items():
        for version, row in versions.items():
            for name, state in row.items():
                patch = PATCHES[engine][name]
                if state in ("needed", "applied"):
                    assert patch.concerns(version), (version, name)
                elif state == "not needed":
                    assert not patch.concerns(version) or not patch.speculation, (version, name)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "version"), list(releases()))
def test_the_table_is_what_the_sources_say(engine: str, version: str) -> None:
    found = states(engine, version)
    assert parse(DOCUMENT.read_text(encoding="utf-8"))[engine][version] == found
    if set(found.values()) == {NO_TARGET}:
        return
    packages = sources(engine, version)
    needed = [patch for patch in PATCHES[engine].values() if found[patch.id] == "needed"]
    before = {name: (packages / name).read_bytes() for patch in needed for name in patch.files}
    try:
        apply(packages, needed)
        assert verify(packages) == ()
        for name in before:
            ast.parse((packages / name).read_bytes())
    finally:
        revert(packages)
    assert {name: (packages / name).read_bytes() for name in before} == before
