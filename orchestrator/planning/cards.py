"""The NVIDIA GPUs this process may use, and those an engine that it starts gets.

CUDA_VISIBLE_DEVICES names them by index or by the beginning of a UUID; unset, all may be used. An
index is nvidia-smi's, which counts along the PCI bus; engines are told to count so too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache

from backends.base import Device, Finding

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
FIELDS = ("name", "driver_version", "memory.total", "power.limit", "uuid", "index")
FORMAT = ("--format=csv,noheader,nounits",)
NO_GPU = "no GPU in use"
TIMEOUT_S = 20.0

Card = dict[str, str]
"""What nvidia-smi says of a GPU, by FIELDS."""


def listed() -> list[Card] | None:
    """Every GPU that nvidia-smi shows; [] where there is no nvidia-smi, None where it fails."""
    tool = shutil.which("nvidia-smi")
    return [] if tool is None else _listed(tool)


def visible() -> list[Card] | None:
    """Those of `listed` that this process may use."""
    cards = listed()
    return None if cards is None else chosen(cards, os.environ.get(VISIBLE))


def chosen(cards: Sequence[Card], told: str | None) -> list[Card]:
    """As CUDA reads the variable: up to the first entry that names none, or one again."""
    if told is None:
        return list(cards)
    found: list[Card] = []
    for entry in told.split(","):
        card = next((card for card in cards if _is(card, entry.strip())), None)
        if card is None or card in found:
            break
        found.append(card)
    return found


def setting(env: Mapping[str, str]) -> tuple[dict[str, str], Finding | None]:
    """Variables by which an engine uses one GPU, on a machine with several.

    `env` is the arm's own; what it says of GPUs stays. The finding is for who chose none.
    """
    cards = listed()
    mine = chosen(cards or [], os.environ.get(VISIBLE))
    if not cards or (len(cards) == 1 and (mine or VISIBLE in env)):
        return {}, None
    order = {ORDER: env.get(ORDER, "PCI_BUS_ID")}
    if VISIBLE in env:
        return order, None
    if not mine:
        return order, Finding(
            "warning",
            "no-visible-gpu",
            f"{VISIBLE}={os.environ[VISIBLE]} names no GPU that nvidia-smi shows.",
            "Unset it, or name one by its index or UUID; `nvidia-smi -L` lists them.",
        )
    told = None
    if len(mine) > 1:
        told = Finding(
            "info",
            "first-gpu",
            f"{len(mine)} GPUs are visible; this engine uses one, GPU {mine[0]['index']} "
            f"({mine[0]['name']}).",
            f"Choose another by {VISIBLE}; several by the arm's env and engine_args.",
        )
    return {**order, VISIBLE: mine[0]["index"]}, told


def used(device: Device, env: Mapping[str, str]) -> list[Card] | str:
    """The GPUs of an engine whose plan has the variables `env`, or why there are none to watch."""
    if device == "cpu":
        return NO_GPU
    if shutil.which("nvidia-smi") is None:
        return "no nvidia-smi on PATH"
    cards = listed()
    if not cards:
        return "nvidia-smi fails" if cards is None else "nvidia-smi shows no GPU"
    told = env.get(VISIBLE, os.environ.get(VISIBLE))
    return chosen(cards, told) or f"nvidia-smi shows none of {VISIBLE}={told}"


def ask(query: str, cards: Sequence[Card]) -> list[str]:
    """Words of a call of nvidia-smi about these GPUs, but for its own path."""
    return [query, *FORMAT, "-i", ",".join(card["uuid"] for card in cards)]


@lru_cache(maxsize=4)
def _listed(tool: str) -> list[Card] | None:
    """GPUs do not come and go, and nvidia-smi can take a second for each."""
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={','.join(FIELDS)}", *FORMAT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split(",") for line in done.stdout.decode(errors="replace").splitlines()]
    return [
        dict(zip(FIELDS, (cell.strip() for cell in row), strict=True))
        for row in rows
        if len(row) == len(FIELDS)
    ]


def _is(card: Card, entry: str) -> bool:
    return entry == card["index"] or (entry.startswith("GPU-") and card["uuid"].startswith(entry))
