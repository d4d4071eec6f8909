"""Fetches the engines' releases and writes docs/patches.md from what their sources say.

python -m tests.orchestrator.patching.table
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from orchestrator.environments.engines import cache_root
from orchestrator.patching import missing_target, status
from orchestrator.patching.document import CHECKED, NO_TARGET, render
from orchestrator.patching.place import PATCHES
from orchestrator.patching.status import NATIVE

DOCUMENT = Path(__file__).parents[3] / "docs" / "patches.md"


def sources(engine: str, version: str) -> Path:
    """The files that the patches look at, as the release has them."""
    folder = cache_root() / "sources" / f"{engine}-{version}"
    if folder.is_dir():
        return folder
    work = folder.with_name(f".{folder.name}")
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--python-version", "3.11", "--dest", str(work)]
    for platform in ("manylinux_2_28", "manylinux_2_34", "manylinux_2_31", "manylinux2014"):
        command += ["--platform", f"{platform}_x86_64"]
    subprocess.run([*command, f"{engine}=={version}"], check=True)
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        present = set(archive.namelist())
        archive.extractall(work, sorted(wanted(engine) & present))
        archive.extractall(work, [name for name in present if name.endswith("/METADATA")])
    wheel.unlink()
    work.rename(folder)
    return folder


def wanted(engine: str) -> set[str]:
    names = {NATIVE[engine][0].file}
    for patch in PATCHES[engine].values():
        names |= {*patch.files, *(e.file for e in (*patch.precondition, *patch.fixed_by))}
    return names


def releases() -> Iterator[tuple[str, str]]:
    for engine, versions in CHECKED.items():
        for version in versions:
            yield engine, version


def states(engine: str, version: str) -> dict[str, str]:
    """Patch id to its state in that release."""
    packages = sources(engine, version)
    if missing_target(packages, engine) is not None:
        return dict.fromkeys(PATCHES[engine], NO_TARGET)
    return {found.id: found.state for found in status(packages, PATCHES[engine].values())}


def main() -> None:
    found: dict[str, dict[str, dict[str, str]]] = {engine: {} for engine in CHECKED}
    for engine, version in releases():
        found[engine][version] = states(engine, version)
    DOCUMENT.write_text(render(found), encoding="utf-8")


if __name__ == "__main__":
    main()
