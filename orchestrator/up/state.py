"""What is kept of each server, so that any later museorch finds it again.

    <cache root>/servers/NAME/state.json   mode 0600, replaced as a whole
                              server.log
    <cache root>/servers/.lock             held for the moment in which a name and a port are taken

A state outlives its server when the machine goes down; pid and start time then tell.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from backends.errors import EngineError, InputError, MuseorchError
from orchestrator.environments.engines import cache_root
from orchestrator.up.choice import Options
from orchestrator.up.process import Process, kill, of_group

STATE = "state.json"
LOG = "server.log"
SCHEMA = 1
Phase = Literal["starting", "ready", "stopping"]
Standing = Literal["starting", "running", "stopping", "ended"]


@dataclass(frozen=True)
class State:
    """One server as its `up` left it. Holds no secret."""

    name: str
    phase: Phase
    owner: Process
    """The `museorch up` that starts it, or holds it in the foreground."""
    options: Options
    backend: str
    engine_version: str
    model: str
    speculation: str
    draft_tokens: int | None
    quantisation: str
    device: str
    slots: int
    context_length: int
    host: str
    port: int
    url: str
    started: str
    """UTC."""
    needs_key: bool
    detached: bool
    guard: Process | None = None
    engine: Process | None = None

    @property
    def folder(self) -> Path:
        return servers() / self.name

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def standing(self) -> Standing:
        """What it is now, whatever the file says."""
        watched = self.guard if self.guard is not None else self.owner
        if not watched.alive:
            return "ended"
        return "running" if self.phase == "ready" else self.phase


def servers() -> Path:
    return cache_root() / "servers"


def check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise InputError(f"{name!r} is no name for a server.", fix="Use letters, digits, . _ -")
    return name


@contextmanager
def claim(name: str) -> Iterator[Collection[int]]:
    """The lock under which a state is first written; yields the ports that servers hold.

    InputError where a server of that name runs, EngineError where its file is damaged and it may.
    What an ended one left is removed.
    """
    folder = servers()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / ".lock").open("a")
    except OSError as error:
        raise EngineError(
            f"cannot be written: {error.strerror}.",
            where=str(folder),
            fix="Set MUSEORCH_HOME to a folder that can.",
        ) from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if (folder / name / STATE).exists():
            state = find(name)
            if state.standing != "ended":
                raise InputError(
                    f"it is {state.standing} at {state.url}.",
                    where=name,
                    fix=f"Use it, end it with `museorch down {name}`, or give --name.",
                )
            _sweep(state)
        shutil.rmtree(folder / name, ignore_errors=True)
        yield {state.port for state in everyone() if state.standing != "ended"}


def write(state: State) -> None:
    """Replace the state file, or make it."""
    state.folder.mkdir(parents=True, exist_ok=True)
    state.folder.chmod(0o700)
    data = {"schema": SCHEMA, **asdict(state)}
    # mkstemp makes the file 0600.
    handle, name = tempfile.mkstemp(prefix=".state-", dir=state.folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        os.replace(name, state.folder / STATE)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def settle(name: str, phase: Phase) -> None:
    """Note a later phase of a server that is still there."""
    state = find(name)
    write(replace(state, phase=phase))


def stopping(name: str) -> bool:
    """Whether `down` is ending it, or has."""
    try:
        return find(name).phase == "stopping"
    except MuseorchError:
        return True


def find(name: str) -> State:
    """InputError where there is none of that name, EngineError where its file is damaged."""
    check_name(name)
    path = servers() / name / STATE
    try:
        return _read(path)
    except FileNotFoundError:
        names = ", ".join(state.name for state in everyone()) or "none"
        raise InputError(f"there is no server {name!r}.", fix=f"There are: {names}.") from None


def only(name: str | None) -> State:
    """The one named, or the only one there is."""
    if name is not None:
        return find(name)
    states = everyone()
    if len(states) == 1:
        return states[0]
    if not states:
        raise InputError("no server is up.", fix="Start one: museorch up")
    names = ", ".join(state.name for state in states)
    raise InputError(f"which one? There are {names}.", fix="Name one.")


def everyone() -> list[State]:
    """All that can be read, by name."""
    found = []
    for path in sorted(servers().glob(f"*/{STATE}")):
        with contextlib.suppress(FileNotFoundError, EngineError):
            found.append(_read(path))
    return found


def drop(state: State, *, keep_log: bool = False) -> None:
    """Remove what is kept of a server; with `keep_log` all but a log that says something.

    Nothing where its name has become another's, as after `restart`.
    """
    with contextlib.suppress(MuseorchError):
        if find(state.name).owner != state.owner:
            return
    _sweep(state)
    log = state.log
    if keep_log and log.is_file() and log.stat().st_size:
        for entry in state.folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry != log:
                entry.unlink(missing_ok=True)
        return
    shutil.rmtree(state.folder, ignore_errors=True)


def _sweep(state: State) -> None:
    """End what a killed guard could not: the engine's own children."""
    if state.engine is not None:
        for process in of_group(state.engine.pid, state.folder):
            kill(process)


def _read(path: Path) -> State:
    """FileNotFoundError where there is none."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        for key in ("owner", "guard", "engine"):
            data[key] = Process(**data[key]) if data[key] is not None else None
        data["options"] = Options(**data["options"])
        return State(**data)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        fix = f"End its processes, then delete {path.parent}."
        raise EngineError("the state file is damaged.", where=str(path), fix=fix) from None
