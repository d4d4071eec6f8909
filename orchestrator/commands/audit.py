"""audit: does every arm sample as asked?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.commands.run import IN_PLACE, JSON, QUIET, RECIPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.distribution.audit import Row
    from orchestrator.planning.plan import PlannedArm
    from orchestrator.rundir import RunDirectory


def audit(
    recipe: str = RECIPE,
    arm: list[str] = typer.Option([], "--arm", help="Only this arm; may be given again."),
    samples: int = typer.Option(100, min=20, help="Answers to each prompt."),
    prompts: int = typer.Option(12, min=1, help="How many of the recipe's prompts."),
    tokens: int = typer.Option(4, min=2, help="Longest answer."),
    concurrency: int = typer.Option(4, min=1, help="Answers drawn at the same time."),
    out: Path | None = typer.Option(
        None, "--out", help="Folder. Default: runs/<utc>-<recipe>-audit."
    ),
    run: Path | None = typer.Option(
        None, "--run", help="A run of this recipe, whose result and reports then hold the audit."
    ),
    as_json: bool = JSON,
    quiet: bool = QUIET,
    patch_in_place: bool = IN_PLACE,
) -> None:
    """Test that arms sample from the exact distribution, with and without a drafter.

    Draws many short answers at T 1.0 and T 0.6 (top_p 0.95, top_k 64) and compares them with the
    same model in transformers. Exit status 1 means that an arm does not sample as asked.
    """
    from dataclasses import replace

    from backends.errors import InputError
    from orchestrator import job as jobs
    from orchestrator.commands.report import write_beside
    from orchestrator.distribution.audit import DIFFERS, judge, look_up
    from orchestrator.distribution.draw import Asked, draw
    from orchestrator.planning.plan import plan_arm
    from orchestrator.progress import Progress
    from orchestrator.result.build import build
    from orchestrator.rundir import RunDirectory, new_run_path, write_json

    job = jobs.prepare(recipe)
    if job.recipe.weights == "dummy":
        raise InputError("dummy weights have no distribution to audit.", where=str(job.path))
    workload = job.recipe.workload.model_copy(update={"concurrency": [concurrency]})
    shared = job.recipe.model_copy(update={"workload": workload})
    chosen = _chosen([a.id for a in job.arms], arm, job.path)
    planned = tuple(plan_arm(shared, a) for a in job.arms if a.id in chosen)
    job = replace(job, recipe=shared, planned=planned, patch_in_place=patch_in_place)
    jobs.require_runnable(job)
    find = look_up(job)
    asked = Asked(
        job.prompts[:prompts], tuple(job.model.model.tokens.end), samples, tokens, workload.seed
    )
    folder = out if out is not None else new_run_path(f"{job.recipe.name}-audit")
    measured = _measured(run, job.recipe.name, planned) if run is not None else None
    RunDirectory.create(folder)
    drawn = {}
    with Progress(quiet=quiet, lines=as_json) as progress:
        progress.note(f"folder: {folder}")
        for number, item in enumerate(planned, start=1):
            progress.turn(number, len(planned), item.arm.id, 1)
            drawn[item.arm.id] = draw(
                item,
                asked,
                folder / "arms" / item.arm.id,
                patch_in_place=patch_in_place,
                on_progress=progress.detail,
            )
        progress.note("reference: transformers in float32")
        ids = {prompt.id: prompt.token_ids for prompt in asked.prompts}
        rows = judge(drawn, ids, asked.end, find)
    result = {
        "recipe": job.recipe.name,
        "samples": samples,
        "prompts": [prompt.id for prompt in asked.prompts],
        "tokens": tokens,
        "rows": [row.as_json() for row in rows],
    }
    write_json(folder / "audit.json", result)
    if measured is not None:
        write_json(measured.distribution_file, result)
        remade = build(measured)
        write_json(measured.result_file, remade)
        write_beside(measured, remade)
    if as_json:
        import json

        print(json.dumps(result, indent=1))
    else:
        print(_table(rows))
    if any(row.verdict == DIFFERS for row in rows):
        raise typer.Exit(1)


def _measured(path: Path, recipe: str, planned: Sequence[PlannedArm]) -> RunDirectory:
    """The run at `path`. Raises InputError where it measured other arms than those planned."""
    from backends.errors import InputError
    from orchestrator.planning.plan import plan_json
    from orchestrator.rundir import RunDirectory, read_json

    run = RunDirectory.open(path)
    name = read_json(run.run_file)["recipe"]
    if name != recipe:
        raise InputError(f'is a run of "{name}", not of "{recipe}".', where=str(path))
    there = {plan["id"]: _what(plan) for plan in read_json(run.plan_file)}
    for item in planned:
        here = _what(plan_json(item))
        if (found := there.get(item.arm.id)) != here:
            told = f"was {found}" if found is not None else "is not there"
            raise InputError(f"{item.arm.id} {told}; here it is {here}.", where=str(path))
    return run


def _what(plan: Mapping[str, Any]) -> str:
    """What of an arm decides how it samples."""
    weights = [plan["target"], *([plan["drafter"]["weights"]] if plan["drafter"] else [])]
    names = [f"{one['identity']} {one['quantisation']}" for one in weights]
    drafts = [] if plan["draft_tokens"] is None else [f"K {plan['draft_tokens']}"]
    return ", ".join([f"{plan['backend']} {plan['engine_version']}", *names, *drafts])


def _chosen(known: list[str], asked: list[str], path: Path) -> set[str]:
    from orchestrator.inputs.expand import no_such_arm

    for name in asked:
        if name not in known:
            raise no_such_arm(name, known, str(path))
    return set(asked or known)


def _table(rows: list[Row]) -> str:
    """The rows of each arm below its name. Verdicts follow the corrected p; audit.json has all."""
    lines = ["  mode positions    verdict  tokens surprise corrected p impossible found from"]
    last = None
    for row in rows:
        one, share = row.fit, row.power.forced
        if row.arm != last:
            lines.append(row.arm)
            last = row.arm
        lines.append(
            f"  {row.mode:4} {row.positions:12} {row.verdict:8} {one.tokens:6}"
            f" {one.surprise:+8.4f} {row.p_adjusted:11.2g} {one.impossible:10}"
            f" {'-' if share is None else f'{share:.1%}':>10}"
        )
    return "\n".join(lines)
