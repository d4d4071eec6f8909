"""Weights of the Hugging Face hub: where they lie on this machine, and how they come here.

`cached` reads the hub's own cache layout. Only `fetch` uses the network, and only `up` calls it:
a comparison must not begin with 60 GB that nobody asked for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.errors import EngineError

CHECKPOINT = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
"""What engines read of a repository; not its other formats or pictures."""
INDEX = "model.safetensors.index.json"
"""Which file has which tensor, of a checkpoint in several files."""
POLL_S = 0.5


class NotFetched(EngineError):
    """Something of the hub is needed and not on this machine."""

    def __init__(self, repo: str, file: str | None = None) -> None:
        self.wanted = Wanted(repo, file)
        self.command = command(repo, file)
        super().__init__(
            f"{self.wanted.name} is not in the hub cache.", fix=f"Fetch it: {self.command}"
        )


@dataclass(frozen=True)
class Wanted:
    """A file of a repository, or the checkpoint in it."""

    repo: str
    file: str | None = None

    @property
    def name(self) -> str:
        return f"{self.repo}/{self.file}" if self.file is not None else self.repo

    @property
    def patterns(self) -> Sequence[str]:
        return (self.file,) if self.file is not None else CHECKPOINT


def named(path: str) -> Wanted:
    """`owner/name` or `owner/name/file`, as weights are called that are not here."""
    owner, name, *file = path.split("/", 2)
    return Wanted(f"{owner}/{name}", file[0] if file else None)


def command(repo: str, file: str | None = None) -> str:
    """The command that fetches it, of the package huggingface_hub."""
    return f"hf download {repo} {file}" if file else f"hf download {repo}"


def cached(repo: str, file: str | None = None) -> Path | None:
    """The repository's whole checkpoint, or a file in it; None when it is not here."""
    folder = _folder(repo)
    ref = folder / "refs" / "main"
    if ref.is_file():
        revision = ref.read_text(encoding="utf-8", errors="replace").strip()
        snapshot = folder / "snapshots" / revision
        found = snapshot / file if file else snapshot
        if found.exists() and (file is not None or missing(found) is None):
            return found
    return None


def missing(folder: Path) -> str | None:
    """What a checkpoint lacks, such as an interrupted download leaves it: a name, else None."""
    if not (folder / "config.json").exists():
        return "config.json"
    names = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    index = folder / INDEX
    if index.exists():
        try:
            wanted = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            return min(wanted - names, default=None)
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return f"a readable {index.name}"
    if any(re.fullmatch(r".*-\d+-of-\d+\.safetensors", name) for name in names):
        return index.name
    return None if names else "a .safetensors file"


def cache() -> Path:
    """The hub's cache folder, as the hub's own tools find it."""
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    # Not Path.expanduser, which fails where no home folder is known.
    return Path(os.path.expanduser(os.environ.get("HF_HUB_CACHE") or f"{home}/hub"))


def _folder(repo: str) -> Path:
    return cache() / f"models--{repo.replace('/', '--')}"


def offline() -> bool:
    """Whether the user forbids the network, as the hub's own tools read it."""
    words = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(word.upper() in ("1", "ON", "YES", "TRUE") for word in words)


def remaining(wanted: Wanted) -> int:
    """Bytes that would be fetched. EngineError where the hub does not tell."""
    with _child("list", wanted) as child:
        rows = _told(child, wanted)["files"]
    if not rows:
        raise EngineError("the hub has no such files.", where=wanted.name)
    return sum(int(row["size"]) for row in rows if not row["here"])


def fetch(wanted: Wanted, on_bytes: Callable[[int], None]) -> None:
    """Into the hub's cache; `on_bytes` is told what has come so far.

    Finished files stay, whatever happens. A dropped connection goes on where it broke.
    """
    before = _stored(wanted)
    with _child("get", wanted) as child:
        while child.poll() is None:
            on_bytes(max(0, _stored(wanted) - before))
            time.sleep(POLL_S)
        _told(child, wanted)


def _stored(wanted: Wanted) -> int:
    """Bytes in the cache, unfinished files included, which have names of their own."""
    total = 0
    for path in (_folder(wanted.repo) / "blobs").glob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # it was renamed
    return total


@contextmanager
def _child(action: str, wanted: Wanted) -> Iterator[subprocess.Popen[str]]:
    """The process that talks to the hub. Without stdin it removes its unfinished files and ends."""
    argv = [sys.executable, "-m", "orchestrator.inputs.hub_download", action, wanted.repo]
    process = subprocess.Popen(
        [*argv, *wanted.patterns],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        text=True,
        process_group=0,  # Ctrl-C is for museorch
    )
    assert process.stdin is not None
    with process:
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()


def _told(child: subprocess.Popen[str], wanted: Wanted) -> dict[str, Any]:
    assert child.stdout is not None
    try:
        told: dict[str, Any] = json.loads(child.stdout.readline())
    except ValueError:
        raise EngineError("the download ended without a word.", where=wanted.name) from None
    kind = told.get("error")
    if kind is None:
        return told
    if kind == "gated":
        fix = f"Accept its terms on the hub's page of {wanted.repo}, then set HF_TOKEN."
        raise EngineError("its authors ask for consent first.", where=wanted.name, fix=fix)
    if kind == "not found":
        fix = "Check the name in the model file; a private one needs HF_TOKEN."
        raise EngineError("the hub has no such repository.", where=wanted.name, fix=fix)
    place = f"copy {_folder(wanted.repo)} here from a machine that can reach it"
    fix = f"Try again; what is finished is kept. Or {place}: {command(wanted.repo, wanted.file)}"
    raise EngineError(f"the hub does not answer: {told['text']}", where=wanted.name, fix=fix)
