"""plan, compare and bench."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from orchestrator.commands.numbers import numbers
from orchestrator.commands.output import print_json

if TYPE_CHECKING:
    from orchestrator.job import Job
    from orchestrator.rundir import RunDirectory

RECIPE = typer.Argument(help="A recipe file, or a shipped recipe such as tiny-muse/demo.")
JSON = typer.Option(False, "--json", help="Print JSON.")
OUT = typer.Option(None, "--out", help="Run directory. Default: runs/<utc>-<recipe>.")
RESUME = typer.Option(None, "--resume", help="Finish this run directory instead of a new one.")
CONCURRENCY = typer.Option(
    None, "--concurrency", help="Requests in flight, as 1,4,16, in place of the recipe's."
)
QUIET = typer.Option(False, "--quiet", "-q", help="No progress.")
IN_PLACE = typer.Option(
    False, "--patch-in-place", help="Also patch an engine that museorch does not own."
)


def register(app: typer.Typer) -> None:
    """Add this module's commands to the top level."""
    app.command()(plan)
    app.command()(compare)
    app.command()(bench)


def plan(recipe: str = RECIPE, as_json: bool = JSON) -> None:
    """Show what each arm of a recipe would start. Needs no engine, no GPU and no weights."""
    from orchestrator.job import prepare
    from orchestrator.planning.plan import plan_json, plan_text

    job = prepare(recipe)
    if as_json:
        print_json([plan_json(item) for item in job.planned])
    else:
        print("\n\n".join(plan_text(item) for item in job.planned))
    if any(f.level == "error" for item in job.planned for f in item.plan.findings):
        raise typer.Exit(1)


def compare(
    recipe: str = RECIPE,
    arms: list[str] = typer.Option([], "--arms", help="Only these, as in 'vllm-*'. Repeatable."),
    concurrency: str | None = CONCURRENCY,
    out: Path | None = OUT,
    resume: Path | None = RESUME,
    as_json: bool = JSON,
    quiet: bool = QUIET,
    patch_in_place: bool = IN_PLACE,
) -> None:
    """Run every arm of a recipe and compare them where the conditions match."""
    _run(recipe, arms, concurrency, out, resume, as_json, quiet, patch_in_place)


def bench(
    recipe: str = RECIPE,
    arm: str = typer.Option(help="The arm to run."),
    concurrency: str | None = CONCURRENCY,
    out: Path | None = OUT,
    as_json: bool = JSON,
    quiet: bool = QUIET,
    patch_in_place: bool = IN_PLACE,
) -> None:
    """Run one arm of a recipe."""
    _run(recipe, [arm], concurrency, out, None, as_json, quiet, patch_in_place)


def _run(
    recipe: str,
    arms: list[str],
    concurrency: str | None,
    out: Path | None,
    resume: Path | None,
    as_json: bool,
    quiet: bool,
    patch_in_place: bool,
) -> None:
    from dataclasses import replace

    from backends.errors import InputError
    from orchestrator import job as jobs
    from orchestrator import run as flow
    from orchestrator.progress import Progress
    from orchestrator.rundir import new_run_path
    from orchestrator.serving.launch import usable_port

    if out is not None and resume is not None:
        raise InputError("--out and --resume exclude each other.")
    sweep = numbers(concurrency, "--concurrency")
    job = replace(jobs.prepare(recipe, sweep), patch_in_place=patch_in_place)
    if arms:
        job = _only(job, arms)
    jobs.require_runnable(job)
    if job.recipe.serve.port is not None:
        usable_port(job.planned[0].spec.host, job.recipe.serve.port)
    if resume is not None:
        run = jobs.reopen(job, resume)
    else:
        run = jobs.create(job, out if out is not None else new_run_path(job.recipe.name))
    interrupted = False
    with Progress(quiet=quiet, lines=as_json) as progress, ended_by_signals():
        progress.note(f"run directory: {run.path}")
        try:
            flow.execute(job, run, progress)
        except KeyboardInterrupt:
            interrupted = True
    chosen = [word for arm in arms for word in ("--arms", arm)]
    chosen += ["--concurrency", concurrency] if concurrency is not None else []
    _conclude(run, as_json, chosen, interrupted=interrupted)


def _only(job: Job, patterns: list[str]) -> Job:
    """The job with the arms that fit a pattern. Without its reference their first stands in."""
    from dataclasses import replace
    from fnmatch import fnmatchcase

    from orchestrator.gguf import of_run
    from orchestrator.inputs.expand import no_such_arm

    ids = [item.arm.id for item in job.planned]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in ids):
            raise no_such_arm(pattern, ids, str(job.path))
    chosen = tuple(
        item
        for item in job.planned
        if any(fnmatchcase(item.arm.id, pattern) for pattern in patterns)
    )
    arms = tuple(item.arm for item in chosen)
    order = job.recipe.order
    if job.reference not in {arm.id for arm in arms}:
        order = order.model_copy(update={"reference": arms[0].id})
    quality = job.recipe.quality if len(of_run.targets(chosen)) > 1 else None
    recipe = job.recipe.model_copy(update={"order": order, "quality": quality})
    return replace(job, recipe=recipe, arms=arms, planned=chosen)


def _conclude(
    run: RunDirectory, as_json: bool, chosen: list[str], *, interrupted: bool = False
) -> None:
    from backends.errors import MuseorchError
    from orchestrator.commands.report import write_beside
    from orchestrator.report import terminal
    from orchestrator.result.build import build
    from orchestrator.rundir import read_json, write_json

    result = build(run)
    write_json(run.result_file, result)
    try:
        written = [run.result_file, *write_beside(run, result)]
    except MuseorchError as error:
        # The result stands without its page.
        written = [run.result_file]
        _tell("error", f"museorch: {error.message}", as_json)
    # Every file is written by now: whoever reads this may go away.
    if as_json:
        print_json(result)
    else:
        print(terminal.render(result), end="", flush=True)
        print(file=sys.stderr)
    for path in written:
        _tell("file", str(path), as_json)
    if interrupted:
        recipe = read_json(run.run_file)["path"]
        words = ["museorch", "compare", recipe, "--resume", str(run.path)]
        again = shlex.join([*words, *chosen])
        _tell("note", f"Stopped. What was measured is kept; finish it with: {again}", as_json)
        raise typer.Exit(130)
    if any(arm["status"] != "ok" for arm in result["arms"]):
        raise typer.Exit(1)


def _tell(event: str, text: str, as_json: bool) -> None:
    """A line on stderr, where with --json every line is one event, as those of Progress are."""
    print(json.dumps({"event": event, "text": text}) if as_json else text, file=sys.stderr)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """TERM and HUP end a run as Ctrl-C does: servers stopped, partial results kept."""

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
