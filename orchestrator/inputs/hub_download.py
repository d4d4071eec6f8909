"""A child process that lists or fetches files of one repository with huggingface_hub.

    python -m orchestrator.inputs.hub_download list|get REPOSITORY PATTERN...

One line of JSON to stdout: `{"files": [{"name", "size", "here"}]}`, `{"done": true}`, or
`{"error": kind, "text": ...}`. A process of its own can be ended in the middle of a file: it ends
when its stdin closes, so at the latest with the process that started it, and takes that file along.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from typing import Any


def answer(action: str, repo: str, patterns: list[str]) -> dict[str, Any]:
    from huggingface_hub import snapshot_download

    try:
        if action == "get":
            snapshot_download(repo, allow_patterns=patterns)
            return {"done": True}
        files = snapshot_download(repo, allow_patterns=patterns, dry_run=True)
    except Exception as error:
        # A dry run hides the hub's answer behind an error of its own.
        return _failure(error.__cause__ or error)
    rows = [{"name": f.filename, "size": f.file_size or 0, "here": f.is_cached} for f in files]
    return {"files": rows}


def _failure(error: BaseException) -> dict[str, Any]:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    # The first is one of the second.
    kinds = {GatedRepoError: "gated", RepositoryNotFoundError: "not found"}
    kind = next((kind for one, kind in kinds.items() if isinstance(error, one)), "unreachable")
    return {"error": kind, "text": _first_line(error)}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _end_with_parent() -> None:
    sys.stdin.read()
    # Their names are used once, so nobody would ever go on with them.
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if (path := os.readlink(entry.path)).endswith(".incomplete"):
                os.unlink(path)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    action, repo, *patterns = sys.argv[1:]
    print(json.dumps(answer(action, repo, patterns)), flush=True)
    # Its threads and the one that waits for stdin have nothing left to do.
    os._exit(0)


if __name__ == "__main__":
    main()
