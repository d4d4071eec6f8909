"""The flow of a comparison: one turn after another, each into its own folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orchestrator.dummy.write as dummies
from backends import BACKENDS
from backends.base import Request
from backends.errors import EngineError, MuseorchError
from orchestrator import patching
from orchestrator.comparing import margins
from orchestrator.gguf import of_run
from orchestrator.inputs.modes import Mode
from orchestrator.inputs.workload import render_requests
from orchestrator.job import Job, require_runnable, utc
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.client_floor import Floor
from orchestrator.load.sample import Sample, append
from orchestrator.measuring import bandwidth, gpu
from orchestrator.measuring.counters import Counters, scrape
from orchestrator.planning import cards
from orchestrator.planning.plan import PlannedArm
from orchestrator.planning.step_bytes import step_bytes
from orchestrator.planning.weight_files import fingerprint
from orchestrator.progress import Progress
from orchestrator.rundir import RunDirectory, read_json, write_json
from orchestrator.serving import observe
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import Server, serve

REQUEST_TIMEOUT_S = 600.0


WARMUP_TOKENS = 32


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
    status: dict[str, Any] = {"arm": item.arm.id, "repeat": repeat, "started": utc()}

    def settle(word: str, reason: str | None) -> None:
        status.update(status=word, reason=reason, ended=utc())
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
