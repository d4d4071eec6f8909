"""A script that answers as nvidia-smi does. Its lines were printed by one, driver 580, H200."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

UUIDS = tuple(f"GPU-{letter * 8}-1111-2222-3333-444444444444" for letter in "abcd")
CARD = "NVIDIA H200, 580.95.05, 143771, 700.00"


def put(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cards: Sequence[str] = (CARD,),
    apps: str = "",
    otherwise: str = "exit 1",
) -> Path:
    """First on PATH, with these GPUs. The returned file has a line for each call.

    `apps` is shell that answers for compute processes, `otherwise` for every other query.
    """
    folder.mkdir(exist_ok=True)
    calls = folder / "calls"
    rows = "\n".join(f"{card}, {UUIDS[n]}, {n}" for n, card in enumerate(cards))
    script = folder / "nvidia-smi"
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {calls}\ncase "$*" in\n'
        f"  *uuid*) cat <<'CARDS'\n{rows}\nCARDS\n;;\n"
        f"  *compute-apps*) {apps or ':'};;\n"
        f"  *) {otherwise};;\nesac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return calls
