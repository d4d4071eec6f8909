"""patch status, apply, revert, verify and dockerfile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from backends.patch import Patch
    from orchestrator.patching.place import Place

app = typer.Typer(help="Patches that an engine needs for a drafter.", no_args_is_help=True)

ENGINE = typer.Option(None, "--engine", help="vllm, sglang, or a name from `engines list`.")
PYTHON = typer.Option(None, "--python", help="An interpreter that has the engine.")
PACKAGES = typer.Option(None, "--packages", help="A site-packages folder that has the engine.")
JSON = typer.Option(False, "--json", help="Print JSON.")
FAMILY = typer.Option(None, "--for", help="dflash or dspark.", show_default="both")

Family = Literal["dflash", "dspark"]


@app.command()
def status(
    engine: str | None = typer.Argument(None, help="vllm, sglang, or a name of `engines list`."),
    python: str | None = PYTHON,
    packages: Path | None = PACKAGES,
    as_json: bool = JSON,
) -> None:
    """For each patch: applied, needed, not needed, cannot tell or broken, with the evidence."""
    import json
    from dataclasses import asdict

    from orchestrator import patching
    from orchestrator.patching import place

    rows = []
    for found in place.find(engine, python, packages):
        states = patching.status(found.packages, found.patches.values(), found.device)
        note = patching.missing_target(found.packages, found.engine)
        rows.append(
            {
                "engine": found.engine,
                "name": found.name,
                "version": found.version,
                "device": found.device,
                "packages": str(found.packages),
                "note": note,
                "patches": [
                    {**asdict(state), "for": _purpose(found.patches[state.id])} for state in states
                ],
            }
        )
        if not as_json:
            print(f"{found.name}: {found.engine} {found.version or '—'} in {found.packages}")
            if note:
                print(f"  {note}")
            for state in states:
                print(f"  {state.state:<11}  {state.id}: {state.title}")
                print(f"               {state.evidence}; for {_purpose(found.patches[state.id])}")
    if as_json:
        print(json.dumps(rows, indent=1))


@app.command()
def apply(
    ids: list[str] | None = typer.Argument(
        None, help="Patch ids.", show_default="what --for needs"
    ),
    family: Family | None = FAMILY,
    engine: str | None = ENGINE,
    python: str | None = PYTHON,
    packages: Path | None = PACKAGES,
    device: Literal["cpu", "cuda"] | None = typer.Option(
        None, "--device", help="What the engine is built for.", show_default="looked up"
    ),
    as_json: bool = JSON,
) -> None:
    """Apply patches, all or none. Those that the engine no longer needs are left out."""
    import json
    from dataclasses import asdict

    from backends.errors import InputError, PatchError
    from orchestrator import patching
    from orchestrator.patching import place

    found = place.only(engine or _engine_of(ids), python, packages)
    note = patching.missing_target(found.packages, found.engine)
    if note:
        raise PatchError(note, where=str(found.packages))
    if ids:
        patches = [_named(found, name) for name in ids]
    else:
        wanted = device or found.device
        if found.version is None or wanted is None:
            raise InputError(
                "what this engine needs cannot be looked up: its "
                + ("version" if found.version is None else "device")
                + " is not known.",
                where=str(found.packages),
                fix="Name the patches, or give --device.",
            )
        families: tuple[Family, ...] = (family,) if family else ("dflash", "dspark")
        patches = [
            patch
            for patch in found.patches.values()
            if any(patch.wanted(found.version, wanted, one) for one in families)
        ]
    applied = patching.apply(found.packages, patches)
    if as_json:
        print(json.dumps([asdict(patch) for patch in applied], indent=1))
        return
    for patch in applied:
        print(f"applied  {patch.id}: {patch.title}")
        for file in patch.files:
            print(f"         {file.path}  {(file.before or '—')[:12]} -> {file.after[:12]}")
    if not applied:
        print("Nothing to apply: this engine needs none of them.")


@app.command()
def revert(
    ids: list[str] | None = typer.Argument(None, help="Patch ids.", show_default="all"),
    engine: str | None = ENGINE,
    python: str | None = PYTHON,
    packages: Path | None = PACKAGES,
) -> None:
    """Take patches back; the files are then as they were, byte for byte."""
    from orchestrator import patching
    from orchestrator.patching import place

    found = place.only(engine or _engine_of(ids), python, packages)
    for name in patching.revert(found.packages, ids or None):
        print(f"reverted  {name}")


@app.command()
def verify(
    engine: str | None = typer.Argument(None, help="vllm, sglang, or a name of `engines list`."),
    python: str | None = PYTHON,
    packages: Path | None = PACKAGES,
) -> None:
    """Compare the patched files with the journal. Exit status 1 where one differs."""
    from orchestrator import patching
    from orchestrator.patching import place

    problems: list[str] = []
    for found in place.find(engine, python, packages):
        wrong = patching.verify(found.packages)
        problems += wrong
        for problem in wrong:
            print(f"{found.name}: {problem}")
        if not wrong:
            print(f"{found.name}: as recorded")
    raise typer.Exit(1 if problems else 0)


@app.command()
def dockerfile(
    base: str = typer.Option(..., "--base", help="The image to start from."),
    family: Family = typer.Option(..., "--for", help="dflash or dspark."),
    engine: Literal["vllm", "sglang"] = typer.Option("vllm", "--engine", help="What is in it."),
    version: str | None = typer.Option(
        None,
        "--version",
        help="The engine's version.",
        show_default="decided while the image is built",
    ),
    slots: int = typer.Option(64, "--slots", min=1, help="Requests decoded at the same time."),
    context: int = typer.Option(16384, "--context", min=64, help="Tokens per slot."),
) -> None:
    """Print a Dockerfile that patches an image, with its asserts and the launch command."""
    from orchestrator.patching.dockerfile import dockerfile as text
    from orchestrator.patching.dockerfile import launch
    from orchestrator.patching.place import PATCHES

    plan = launch(engine, version, family, slots=slots, context=context)
    patches = [
        patch
        for patch in PATCHES[engine].values()
        if "cuda" in patch.devices
        and family in patch.speculation
        and (version is None or patch.concerns(version))
    ]
    print(text(base, engine, patches, plan), end="")


def _engine_of(ids: list[str] | None) -> str | None:
    """The engine that ids of patches belong to, so that it need not be named."""
    from orchestrator.patching.place import PATCHES

    owners = {
        engine for engine, patches in PATCHES.items() for name in ids or () if name in patches
    }
    return owners.pop() if len(owners) == 1 else None


def _named(found: Place, name: str) -> Patch:
    from backends.errors import InputError

    if name not in found.patches:
        raise InputError(
            f"no patch {name!r} for {found.engine}.", fix=f"Known: {', '.join(found.patches)}."
        )
    return found.patches[name]


def _purpose(patch: Patch) -> str:
    arms = ", ".join("plain" if kind == "none" else kind for kind in patch.speculation)
    return f"{arms or patch.only_for} on {' and '.join(patch.devices)}"
