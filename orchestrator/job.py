"""A recipe made ready to run, and its run directory: everything that needs no engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backends.errors import InputError
from orchestrator.gguf import of_run
from orchestrator.inputs.document import Document
from orchestrator.inputs.expand import Arm, expand
from orchestrator.inputs.hub import NotFetched
from orchestrator.inputs.models import RECIPES, LoadedModel, Model, load_model
from orchestrator.inputs.recipe import Recipe, load_recipe, with_concurrency
from orchestrator.inputs.workload import Prompt, prompts_hash, render_prompts
from orchestrator.measuring import environment
from orchestrator.planning.plan import PlannedArm, plan_arm, plan_json, unrunnable
from orchestrator.resume import require_same
from orchestrator.rundir import BOOKEND, SCHEMA, RunDirectory, block_turns, write_json
from orchestrator.up.memory import Space, space
from orchestrator.up.preflight import room_findings


@dataclass(frozen=True)
class Job:
    """A recipe with everything checked that can be checked without an engine."""

    path: Path
    recipe: Recipe
    model: LoadedModel
    arms: tuple[Arm, ...]
    planned: tuple[PlannedArm, ...]
    prompts: tuple[Prompt, ...]
    text: str
    """The recipe as it was read."""
    patch_in_place: bool = False
    not_fetched: NotFetched | None = None
    """Why there are no prompts: the tokenizer is not on this machine."""

    @property
    def reference(self) -> str:
        return self.recipe.order.reference or self.arms[0].id

    @property
    def turns(self) -> list[tuple[PlannedArm, int]]:
        """(arm, repeat): in each block the reference and the others as written; it once more."""
        first = next(item for item in self.planned if item.arm.id == self.reference)
        rest = [item for item in self.planned if item is not first]
        turns = block_turns(self.recipe.order.blocks)
        order = [(item, turn) for turn in turns for item in (first, *rest)]
        return [*order, (first, BOOKEND)] if self.recipe.order.bookend and rest else order


def find_recipe(name: str) -> Path:
    """A recipe file, or a shipped recipe by its name such as `tiny-muse/demo`."""
    path = Path(name)
    if path.exists():
        return path
    shipped = RECIPES / f"{name.removesuffix('.yaml').removeprefix('recipes/')}.yaml"
    return shipped if shipped.is_file() else path


def prepare(name: str, concurrency: list[int] | None = None) -> Job:
    """Read, validate, expand, render and plan. Raises InputError; starts nothing.

    `concurrency` takes the place of the recipe's own.
    """
    path = find_recipe(name)
    recipe, document = load_recipe(path)
    if concurrency is not None:
        recipe = with_concurrency(recipe, concurrency)
    with _placed(document):
        model = load_model(recipe.model, path.parent)
    arms = expand(recipe, document, model)
    prompts: tuple[Prompt, ...] = ()
    not_fetched = None
    try:
        with _placed(document):
            prompts = render_prompts(recipe, model, path.parent)
    except NotFetched as error:
        not_fetched = error
    room = space(recipe.device)
    planned = tuple(_with_room(plan_arm(recipe, arm), model.model, room) for arm in arms)
    of_run.check(recipe, document, planned, path.parent)
    return Job(path, recipe, model, arms, planned, prompts, document.text, not_fetched=not_fetched)


@contextmanager
def _placed(document: Document) -> Iterator[None]:
    """Gives a complaint about a field its file and line."""
    try:
        yield
    except InputError as error:
        if error.where not in ("model", "workload.prompts"):
            raise
        at = tuple(error.where.split("."))
        raise InputError(error.what, where=document.where(at), fix=error.fix) from None


def _with_room(item: PlannedArm, model: Model, room: Space | None) -> PlannedArm:
    found = (*item.plan.findings, *room_findings(item.arm, item.spec, model, room))
    return replace(item, plan=replace(item.plan, findings=found))


def require_runnable(job: Job) -> None:
    """Raise for the first reason why the job cannot run here, before anything is started."""
    problem = unrunnable(job.planned) or job.not_fetched
    if problem is not None:
        raise problem


def create(job: Job, out: Path) -> RunDirectory:
    """Make the run directory with the recipe, the plan and the machine's facts."""
    run = RunDirectory.create(out)
    run.recipe_file.write_text(job.text, encoding="utf-8")
    write_json(run.plan_file, [plan_json(item) for item in job.planned])
    engines = {item.engine.executable: item.engine for item in job.planned if item.engine}
    facts = [
        {
            "backend": e.backend,
            "version": e.version,
            "executable": str(e.executable),
            "owned": e.owned,
        }
        for e in engines.values()
    ]
    write_json(run.environment_file, {**environment.gather(), "engines": facts})
    write_json(run.run_file, _run_facts(job))
    return run


def reopen(job: Job, out: Path) -> RunDirectory:
    """An unfinished run of the same recipe, to be finished. Refuses any other."""
    run = RunDirectory.open(out)
    plans = [plan_json(item) for item in job.planned]
    require_same(run, _run_facts(job), plans, environment.gather())
    return run


def _run_facts(job: Job) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "recipe": job.recipe.name,
        "path": str(job.path),
        "command": sys.argv,
        "started": utc(),
        "harness": environment.museorch_version(),
        "device": job.recipe.device,
        "prompts": {"count": len(job.prompts), "sha256": prompts_hash(job.prompts)},
        "arms": [arm.id for arm in job.arms],
        "reference": job.reference,
        "bookend": job.recipe.order.bookend,
        "blocks": job.recipe.order.blocks,
        "allow": job.recipe.allow,
        "end_token_ids": job.model.model.tokens.end,
        "workload": job.recipe.workload.model_dump(mode="json"),
        "serve": job.recipe.serve.model_dump(mode="json"),
    }


def utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
