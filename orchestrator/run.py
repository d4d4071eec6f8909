"""The flow of a comparison: prepare, then one turn after another, each into its own folder."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orchestrator.dummy.write as dummies
from backends import BACKENDS
from backends.base import Request
from backends.errors import EngineError, InputError, MuseorchError
from orchestrator import bandwidth, cards, environment, gpu, margins, observe, patching
from orchestrator.client import PhaseContext, run_phase
from orchestrator.client_floor import Floor
from orchestrator.counters import Counters, scrape
from orchestrator.expand import Arm, expand
from orchestrator.gguf import of_run
from orchestrator.hub import NotFetched
from orchestrator.models import RECIPES, LoadedModel, Model, load_model
from orchestrator.overlay import materialise
from orchestrator.plan import PlannedArm, plan_arm, plan_json, unrunnable
from orchestrator.progress import Progress
from orchestrator.recipe import Mode, Recipe, load_recipe, with_concurrency
from orchestrator.resume import require_same
from orchestrator.rundir import BOOKEND, RunDirectory, block_turns, read_json, write_json
from orchestrator.sample import Sample, append
from orchestrator.serve import Server, serve
from orchestrator.step_bytes import step_bytes
from orchestrator.up.memory import Space, space
from orchestrator.up.preflight import room_findings
from orchestrator.weight_files import fingerprint
from orchestrator.workload import Prompt, prompts_hash, render_prompts, render_requests

REQUEST_TIMEOUT_S = 600.0
WARMUP_TOKENS = 32


@dataclass(frozen=True)
class Job:
    """A recipe with everything checked that can be checked without an engine."""

    path: Path
    recipe: Recipe
    model: LoadedModel
    arms: tuple[Arm, ...]
    planned: tuple[PlannedArm, ...]
    prompts: tuple[Prompt, ...]
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
    try:
        model = load_model(recipe.model, path.parent)
    except InputError as error:
        if error.where == "model":
            raise InputError(error.what, where=document.where(("model",)), fix=error.fix) from None
        raise
    arms = expand(recipe, document, model)
    prompts: tuple[Prompt, ...] = ()
    not_fetched = None
    try:
        prompts = render_prompts(recipe, model, path.parent)
    except NotFetched as error:
        not_fetched = error
    room = space(recipe.device)
    planned = tuple(_with_room(plan_arm(recipe, arm), model.model, room) for arm in arms)
    of_run.check(recipe, document, planned, path.parent)
    return Job(path, recipe, model, arms, planned, prompts, not_fetched=not_fetched)


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
    shutil.copyfile(job.path, run.recipe_file)
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
        _turn(job, item, repeat, folder, progress)
    of_run.measure(job.recipe, job.planned, job.path.parent, run, progress.detail)


def _finished(folder: Path) -> bool:
    status = folder / "status.json"
    return status.exists() and read_json(status)["status"] == "ok"


def _turn(job: Job, item: PlannedArm, repeat: int, folder: Path, progress: Progress) -> None:
    status: dict[str, Any] = {"arm": item.arm.id, "repeat": repeat, "started": _utc()}

    def settle(word: str, reason: str | None) -> None:
        status.update(status=word, reason=reason, ended=_utc())
        write_json(folder / "status.json", status)

    try:
        reason = _measure_arm(job, item, repeat, folder, progress, status)
        settle("failed" if reason else "ok", reason)
    except KeyboardInterrupt:
        settle("interrupted", "stopped by the user")
        raise
    except MuseorchError as error:
        reason = error.message
        settle("failed", reason)
    if reason:
        progress.note(f"{item.arm.id} failed: {reason}")


def _measure_arm(
    job: Job,
    item: PlannedArm,
    repeat: int,
    folder: Path,
    progress: Progress,
    status: dict[str, Any],
) -> str | None:
    """Start, measure every mode, stop. The reason of a failure, or None."""
    assert item.engine is not None, "require_runnable has been called"
    engine, backend = item.engine, BACKENDS[item.arm.backend]
    status["engine"] = {"backend": engine.backend, "version": engine.version}
    status["patches"] = [asdict(patch) for patch in _patch(job, item)]
    overlays = {
        overlay.placeholder: str(materialise(overlay, folder / "overlays"))
        for overlay in item.plan.overlays
    }
    probe = replace(_requests(job, job.recipe.workload.modes[0])[0], max_tokens=2)
    used = cards.used(job.recipe.device, item.plan.env)
    status["gpus"] = None if isinstance(used, str) else used
    status["others_on_gpu"] = gpu.others(used)
    began = time.monotonic()
    with serve(
        item.plan,
        backend,
        folder=folder,
        probe=probe,
        model=item.spec.served_name,
        port=job.recipe.serve.port,
        overlay_paths=overlays,
        on_progress=progress.detail,
    ) as server:
        status["startup_s"] = round(time.monotonic() - began, 3)
        status["facts"] = server.facts
        drafter = item.arm.drafter
        status["weight_files"] = fingerprint(item.arm.target)
        status["drafter_files"] = fingerprint(drafter.weights) if drafter else "none"
        status["step_bytes"] = step_bytes(item.arm.target, drafter, item.plan.draft_tokens)
        phases: list[dict[str, Any]] = []
        for concurrency in job.recipe.workload.concurrency:
            for mode in job.recipe.workload.modes:
                reason = _phase(
                    job, item, mode, concurrency, repeat, server, folder, phases, progress
                )
                if reason is not None:
                    return reason
        _ask_margins(job, item, repeat, folder, server)
        return None


def _ask_margins(job: Job, item: PlannedArm, repeat: int, folder: Path, server: Server) -> None:
    greedy = [mode for mode in job.recipe.workload.modes if mode.sampling.greedy]
    earlier = margins.earlier(RunDirectory(folder.parents[2]), item.arm, job.arms, repeat)
    if greedy and earlier:
        margins.ask(
            folder,
            earlier,
            {mode.name for mode in greedy},
            _requests(job, greedy[0]),
            server,
            BACKENDS[item.arm.backend],
            item.spec.served_name,
        )


def _patch(job: Job, item: PlannedArm) -> tuple[patching.AppliedPatch, ...]:
    """Patch the arm's environment for every arm that shares it, so that all run the same code."""
    assert item.engine is not None
    if item.engine.packages is None:
        return ()
    known = BACKENDS[item.arm.backend].patches
    ids = {
        name for other in job.planned if other.engine == item.engine for name in other.plan.patches
    }
    return patching.ensure(
        item.engine.packages,
        [patch for patch in known.values() if patch.id in ids],
        owned=item.engine.owned,
        in_place=job.patch_in_place,
    )


def _phase(
    job: Job,
    item: PlannedArm,
    mode: Mode,
    concurrency: int,
    repeat: int,
    server: Server,
    folder: Path,
    phases: list[dict[str, Any]],
    progress: Progress,
) -> str | None:
    backend, workload = BACKENDS[item.arm.backend], job.recipe.workload
    requests = _requests(job, mode)[: workload.count_at(concurrency)]
    if workload.warmup:
        warm = [replace(r, max_tokens=min(WARMUP_TOKENS, r.max_tokens)) for r in requests]
        _send(
            item, server, _cycle(warm, workload.warmup), mode, concurrency, repeat, lambda _: None
        )
    before = _scrape(server, item) if server.exit_reason() is None else Counters()
    done: list[Sample] = []
    progress.phase(mode.name, concurrency, len(requests))

    def keep(sample: Sample) -> None:
        append(folder / "samples.jsonl", sample)
        done.append(sample)
        progress.sample(sample)

    used = cards.used(job.recipe.device, item.plan.env)
    with observe.phase(server.pid, server.port, used, folder / "gpu.csv") as observed:
        floor = _send(item, server, requests, mode, concurrency, repeat, keep)
    # A client sees the broken connection a moment before the process is gone.
    died = server.exit_reason(wait_s=2.0 if any(s.error is not None for s in done) else 0.0)
    if died is not None:
        return f"the server ended during {mode.name}: {died}"
    after = _scrape(server, item)
    phases.append(
        {
            "mode": mode.name,
            "concurrency": concurrency,
            "requests": len(requests),
            "draft_tokens": item.plan.draft_tokens,
            "verification": backend.verification(item.spec, mode.sampling),
            "before": asdict(before),
            "after": asdict(after),
            "observed": observed,
            "client": asdict(floor),
        }
    )
    write_json(folder / "counters.json", phases)
    failures = [sample.error for sample in done if sample.error is not None]
    if len(failures) == len(requests):
        return f"all {len(requests)} requests of {mode.name} failed; the first: {failures[0]}"
    return None


def _send(
    item: PlannedArm,
    server: Server,
    requests: Sequence[Request],
    mode: Mode,
    concurrency: int,
    repeat: int,
    keep: Any,
) -> Floor:
    floors: list[Floor] = []
    run_phase(
        server.url,
        BACKENDS[item.arm.backend],
        item.spec.served_name,
        requests,
        concurrency=concurrency,
        context=PhaseContext(item.arm.id, mode.name, repeat),
        on_sample=keep,
        should_stop=lambda: server.exit_reason() is not None,
        timeout_s=REQUEST_TIMEOUT_S,
        on_floor=floors.append,
    )
    return floors[0]


def _scrape(server: Server, item: PlannedArm) -> Counters:
    if item.arm.drafter is None:
        return Counters()
    try:
        page = server.metrics()
        log = server.log.read_text(encoding="utf-8", errors="replace")
        return scrape(page, BACKENDS[item.arm.backend].counters, log)
    except OSError as error:
        raise EngineError(f"the metrics endpoint did not answer: {error}") from None


def _requests(job: Job, mode: Mode) -> tuple[Request, ...]:
    return render_requests(job.prompts, job.recipe, mode, job.model.model.tokens.end)


def _cycle(requests: Sequence[Request], count: int) -> list[Request]:
    return [requests[index % len(requests)] for index in range(count)]


def _run_facts(job: Job) -> dict[str, Any]:
    return {
        "schema": 1,
        "recipe": job.recipe.name,
        "path": str(job.path),
        "command": sys.argv,
        "started": _utc(),
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


def _utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
