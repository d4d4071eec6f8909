"""One turn: an arm's server is started, measured in every mode, and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from backends import BACKENDS
from backends.base import Request
from backends.errors import EngineError
from backends.protocol import Backend
from orchestrator import patching
from orchestrator.comparing import margins
from orchestrator.inputs.modes import Mode
from orchestrator.inputs.workload import render_requests
from orchestrator.job import Job
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.client_floor import Floor
from orchestrator.load.sample import Sample, append
from orchestrator.measuring import gpu
from orchestrator.measuring.counters import Counters, scrape
from orchestrator.planning import cards
from orchestrator.planning.plan import PlannedArm
from orchestrator.planning.step_bytes import step_bytes
from orchestrator.planning.weight_files import fingerprint
from orchestrator.progress import Progress
from orchestrator.rundir import RunDirectory, write_json
from orchestrator.serving import observe
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import Server, serve

REQUEST_TIMEOUT_S = 600.0
WARMUP_TOKENS = 32


@dataclass(frozen=True)
class Turn:
    """One start of one arm."""

    job: Job
    item: PlannedArm
    repeat: int
    folder: Path
    progress: Progress

    @property
    def backend(self) -> Backend:
        return BACKENDS[self.item.arm.backend]

    def requests(self, mode: Mode) -> tuple[Request, ...]:
        job = self.job
        return render_requests(job.prompts, job.recipe, mode, job.model.model.tokens.end)


def measure(turn: Turn, status: dict[str, Any]) -> str | None:
    """Start, measure every mode, stop. The reason of a failure, or None. Facts go to `status`."""
    job, item, folder = turn.job, turn.item, turn.folder
    assert item.engine is not None, "require_runnable has been called"
    status["engine"] = {"backend": item.engine.backend, "version": item.engine.version}
    status["patches"] = [asdict(patch) for patch in _patch(turn)]
    overlays = {
        overlay.placeholder: str(materialise(overlay, folder / "overlays"))
        for overlay in item.plan.overlays
    }
    probe = replace(turn.requests(job.recipe.workload.modes[0])[0], max_tokens=2)
    used = cards.used(job.recipe.device, item.plan.env)
    status["gpus"] = None if isinstance(used, str) else used
    status["others_on_gpu"] = gpu.others(used)
    began = time.monotonic()
    with serve(
        item.plan,
        turn.backend,
        folder=folder,
        probe=probe,
        model=item.spec.served_name,
        port=job.recipe.serve.port,
        overlay_paths=overlays,
        on_progress=turn.progress.detail,
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
                reason = _phase(turn, server, mode, concurrency, phases)
                if reason is not None:
                    return reason
        _ask_margins(turn, server)
        return None


def _patch(turn: Turn) -> tuple[patching.AppliedPatch, ...]:
    """Patch the arm's environment for every arm that shares it, so that all run the same code."""
    job, engine = turn.job, turn.item.engine
    assert engine is not None
    if engine.packages is None:
        return ()
    ids = {name for other in job.planned if other.engine == engine for name in other.plan.patches}
    return patching.ensure(
        engine.packages,
        [patch for patch in turn.backend.patches.values() if patch.id in ids],
        owned=engine.owned,
        in_place=job.patch_in_place,
    )


def _phase(
    turn: Turn, server: Server, mode: Mode, concurrency: int, phases: list[dict[str, Any]]
) -> str | None:
    """One mode at one concurrency, added to `phases`. The reason of a failure, or None."""
    item, folder, workload = turn.item, turn.folder, turn.job.recipe.workload
    requests = turn.requests(mode)[: workload.count_at(concurrency)]
    if workload.warmup:
        warm = [replace(r, max_tokens=min(WARMUP_TOKENS, r.max_tokens)) for r in requests]
        _send(turn, server, _cycle(warm, workload.warmup), mode, concurrency, lambda _: None)
    before = _scrape(turn, server) if server.exit_reason() is None else Counters()
    done: list[Sample] = []
    turn.progress.phase(mode.name, concurrency, len(requests))

    def keep(sample: Sample) -> None:
        append(folder / "samples.jsonl", sample)
        done.append(sample)
        turn.progress.sample(sample)

    used = cards.used(turn.job.recipe.device, item.plan.env)
    with observe.phase(server.pid, server.port, used, folder / "gpu.csv") as observed:
        floor = _send(turn, server, requests, mode, concurrency, keep)
    # A client sees the broken connection a moment before the process is gone.
    died = server.exit_reason(wait_s=2.0 if any(s.error is not None for s in done) else 0.0)
    if died is not None:
        return f"the server ended during {mode.name}: {died}"
    after = _scrape(turn, server)
    phases.append(
        {
            "mode": mode.name,
            "concurrency": concurrency,
            "requests": len(requests),
            "draft_tokens": item.plan.draft_tokens,
            "verification": turn.backend.verification(item.spec, mode.sampling),
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
    turn: Turn,
    server: Server,
    requests: Sequence[Request],
    mode: Mode,
    concurrency: int,
    keep: Callable[[Sample], None],
) -> Floor:
    floors: list[Floor] = []
    run_phase(
        server.url,
        turn.backend,
        turn.item.spec.served_name,
        requests,
        concurrency=concurrency,
        context=PhaseContext(turn.item.arm.id, mode.name, turn.repeat),
        on_sample=keep,
        should_stop=lambda: server.exit_reason() is not None,
        timeout_s=REQUEST_TIMEOUT_S,
        on_floor=floors.append,
    )
    return floors[0]


def _scrape(turn: Turn, server: Server) -> Counters:
    if turn.item.arm.drafter is None:
        return Counters()
    try:
        page = server.metrics()
        log = server.log.read_text(encoding="utf-8", errors="replace")
        return scrape(page, turn.backend.counters, log)
    except OSError as error:
        raise EngineError(f"the metrics endpoint did not answer: {error}") from None


def _ask_margins(turn: Turn, server: Server) -> None:
    folder, arm = turn.folder, turn.item.arm
    greedy = [mode for mode in turn.job.recipe.workload.modes if mode.sampling.greedy]
    earlier = margins.earlier(RunDirectory(folder.parents[2]), arm, turn.job.arms, turn.repeat)
    if greedy and earlier:
        margins.ask(
            folder,
            earlier,
            {mode.name for mode in greedy},
            turn.requests(greedy[0]),
            server,
            turn.backend,
            turn.item.spec.served_name,
        )


def _cycle(requests: Sequence[Request], count: int) -> list[Request]:
    return [requests[index % len(requests)] for index in range(count)]
