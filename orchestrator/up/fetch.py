"""Weights that `up` lacks: told with their size, agreed to, fetched."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import count

import typer

from backends.errors import EngineError, InputError
from orchestrator.inputs import hub
from orchestrator.inputs.hub import Wanted
from orchestrator.up.choice import Choice
from orchestrator.up.memory import GIB, free_disk
from orchestrator.up.show import amount

SPARE_BYTES = GIB
"""Left free on the disk."""
SELDOM = 60
"""Of the progress that goes to a file: a line in half a minute."""


Line = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Under a label, a line of progress that is kept up to date."""


def fetch(choice: Choice, *, yes: bool, line: Line) -> None:
    """Bring what the choice lacks, once the sizes are told and agreed to.

    `yes` agrees beforehand; else a person at a terminal is asked. Raises EngineError where the hub
    or the disk does not allow it, InputError without consent.
    """
    sizes = {one: hub.remaining(one) for one in choice.missing()}
    total, free = sum(sizes.values()), free_disk(hub.cache())
    print(f"{choice.name}: to fetch into {hub.cache()}, {amount(free)} free", file=sys.stderr)
    for one, size in sizes.items():
        print(f"{amount(size):>12}  {one.name}", file=sys.stderr)
    if total + SPARE_BYTES > free:
        raise EngineError(
            f"{amount(total)} are to be fetched, and {amount(free)} are free at "
            f"{hub.cache()}, of which 1 GiB stays free.",
            where=choice.name,
            fix="Make room there, or set HF_HUB_CACHE to a folder on another disk.",
        )
    if not yes and not _asked():
        commands = " && ".join(hub.command(one.repo, one.file) for one in sizes)
        raise InputError(
            f"{amount(total)} would be fetched, and nobody said yes.",
            where=choice.name,
            fix=f"Say so with --yes, or fetch them yourself: {commands}",
        )
    with line(choice.name) as report:
        _bring(sizes, report)


def _asked() -> bool:
    """Without a terminal nobody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return typer.confirm("Fetch this?", err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _bring(sizes: Mapping[Wanted, int], on_progress: Callable[[str], None]) -> None:
    lines = count(1)
    for one, size in sizes.items():
        began = time.monotonic()

        def told(come: int, one: Wanted = one, size: int = size, began: float = began) -> None:
            if sys.stderr.isatty() or next(lines) % SELDOM == 0:
                on_progress(_words(one, come, size, time.monotonic() - began))

        hub.fetch(one, told)
        on_progress(f"fetched {one.name}")


def _words(one: Wanted, come: int, size: int, seconds: float) -> str:
    rate = come / seconds if seconds > 0 else 0.0
    left = f", {max(0, size - come) / rate / 60:.0f} min left" if rate > 0 else ""
    return (
        f"fetching {one.name}: {amount(min(come, size))} of {amount(size)}, "
        f"{rate / 1e6:.0f} MB/s{left}"
    )
