"""Where weights of the Hugging Face hub lie on this machine, by the hub's own cache layout.

Nothing is downloaded here: a comparison must not begin with 60 GB that nobody asked for.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.errors import EngineError


class NotFetched(EngineError):
    """Something of the hub is needed and not on this machine."""

    def __init__(self, repo: str, file: str | None = None) -> None:
        what = f"{repo}/{file}" if file else repo
        self.command = command(repo, file)
        super().__init__(f"{what} is not in the hub cache.", fix=f"Fetch it: {self.command}")


def command(repo: str, file: str | None = None) -> str:
    """The command that fetches it, of the package huggingface_hub."""
    return f"hf download {repo} {file}" if file else f"hf download {repo}"


def cached(repo: str, file: str | None = None) -> Path | None:
    """The repository's snapshot, or a file in it; None when it is not here."""
    folder = cache() / f"models--{repo.replace('/', '--')}"
    ref = folder / "refs" / "main"
    if ref.is_file():
        snapshot = folder / "snapshots" / ref.read_text(encoding="utf-8").strip()
        found = snapshot / file if file else snapshot
        if found.exists():
            return found
    return None


def cache() -> Path:
    """The hub's cache folder, as the hub's own tools find it."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub"
