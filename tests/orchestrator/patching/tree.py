"""A small engine environment on disk, and patches for it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from backends.patch import Edit, Evidence, Patch
from backends.vllm.patches import NATIVE

LOADER = "vllm/loader.py"
SAMPLER = "vllm/sampler.py"
LOADER_TEXT = "import os\n\n\ndef load(target):\n    return target.model\n"
SAMPLER_TEXT = "def sample(logits):\n    return logits.max()\n\n\ndef rate():\n    return 1\n"


def packages(root: Path, version: str = "0.32.0") -> Path:
    """A site-packages folder with a two-file engine."""
    folder = root / "site-packages"
    (folder / "vllm" / "__pycache__").mkdir(parents=True)
    (folder / f"vllm-{version}.dist-info").mkdir()
    native = folder / NATIVE.file
    native.parent.mkdir(parents=True)
    native.write_text(f"{NATIVE.text}: ...\n")
    (folder / LOADER).write_text(LOADER_TEXT)
    (folder / SAMPLER).write_text(SAMPLER_TEXT)
    return folder


def patch(name: str, *edits: Edit, **fields: object) -> Patch:
    return Patch(
        id=name,
        engine="vllm",
        title=f"the {name} fault",
        why="a test",
        symptom="none",
        upstream="none known",
        edits=edits,
        **fields,  # type: ignore[arg-type]
    )


WRAPPER = patch(
    "wrapper",
    Edit(LOADER, "return target.model\n", 'return getattr(target, "model", target)\n'),
    until="0.40.0",
    fixed_by=(Evidence(LOADER, "own_fix(target)"),),
)
BOTH = patch(
    "both",
    Edit(LOADER, "import os\n", "import os\nimport sys\n"),
    Edit(SAMPLER, "logits.max()", "logits.argmax()"),
)
RATE = patch("rate", Edit(SAMPLER, "return 1\n", "return 2\n"))


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder`."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
