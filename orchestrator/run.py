"""The flow of a comparison: one turn after another, each into its own folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orchestrator.dummy.write as dummies
from backends.errors import MuseorchError
from orchestrator.gguf import of_run
from orchestrator.job import Job, require_runnable, utc
from orchestrator.measuring import bandwidth
from orchestrator.progress import Progress
from orchestrator.rundir import RunDirectory, read_json, write_json
from orchestrator.turn import Turn, measure


def execute(job: Job, run: RunDirectory, progress: Progress) -> None:
    """Run every turn that has not succeeded yet. A failed arm does not stop the others.

    KeyboardInterrupt passes through after the turn under way is marked and its server ended.
    """
    require_runnable(job)
    dummies.make(job.model, job.arms, progress.note)
    progress.detail("measuring memory bandwidth")
    bandwidth.keep(run, job.planned, job.recipe.device, job.recipe.serve.threads)
    turns = job.turns
    for number, (item, repeat) in enumerate(turns, start=1):
        folder = run.turn(item.arm.id, repeat)
        if _finished(folder):
            progress.note(f"{item.arm.id}: kept from before")
            continue
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        progress.turn(number, len(turns), item.arm.id, repeat)
        _settled(Turn(job, item, repeat, folder, progress))
    of_run.measure(job.recipe, job.planned, job.path.parent, run, progress.detail)


def _finished(folder: Path) -> bool:
    status = folder / "status.json"
    return status.exists() and read_json(status)["status"] == "ok"


def _settled(turn: Turn) -> None:
    """Measure, and write down how it ended."""
    arm = turn.item.arm.id
    status: dict[str, Any] = {"arm": arm, "repeat": turn.repeat, "started": utc()}

    def settle(word: str, reason: str | None) -> None:
        status.update(status=word, reason=reason, ended=utc())
        write_json(turn.folder / "status.json", status)

    try:
        reason = measure(turn, status)
        settle("failed" if reason else "ok", reason)
    except KeyboardInterrupt:
        settle("interrupted", "stopped by the user")
        raise
    except MuseorchError as error:
        reason = error.message
        settle("failed", reason)
    if reason:
        turn.progress.note(f"{arm} failed: {reason}")
