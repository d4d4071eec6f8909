"""What a server has to show before it is called up: replies, and drafts that are accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backends import BACKENDS
from backends.base import Request, SpecRecord
from backends.errors import EngineError
from orchestrator.inputs.modes import KNOWN_MODES
from orchestrator.inputs.workload import render_prompts, render_requests
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.measuring.counters import Counters, delta, scrape, spec_record
from orchestrator.measuring.validity import drafting_problem
from orchestrator.serving.serve import Server
from orchestrator.up.choice import Choice

PROMPTS = 4
TOKENS = 32
TIMEOUT_S = 300.0


def requests_for(choice: Choice) -> tuple[Request, ...]:
    """A few of the recipe's prompts, greedy and of a fixed length."""
    recipe = choice.recipe
    room = recipe.serve.context_length // 2
    workload = recipe.workload.model_copy(
        update={
            "count": [min(PROMPTS, max(recipe.workload.count))],
            "output_tokens": min(TOKENS, room, recipe.workload.output_tokens),
            "stop": "fixed",
        }
    )
    recipe = recipe.model_copy(update={"workload": workload})
    prompts = render_prompts(recipe, choice.model, choice.near)
    end = choice.model.model.tokens.end
    return render_requests(prompts, recipe, KNOWN_MODES["greedy"], end)


def gate(
    choice: Choice,
    server: Server,
    requests: tuple[Request, ...],
    headers: Mapping[str, str],
    on_progress: Callable[[str], None],
) -> SpecRecord | None:
    """A few greedy requests. EngineError where they fail or their drafts are not accepted."""
    arm, backend = choice.arm, BACKENDS[choice.arm.backend]
    if arm.drafter is None:
        return None
    on_progress("checking that drafts are accepted")
    before = scrape(server.metrics(), backend.counters)
    samples = run_phase(
        server.url,
        backend,
        choice.planned.spec.served_name,
        requests,
        concurrency=1,
        context=PhaseContext(arm.id, "gate", 0),
        on_sample=lambda _: None,
        should_stop=lambda: server.exit_reason() is not None,
        timeout_s=TIMEOUT_S,
        headers=headers,
    )
    failed = [sample.error for sample in samples if sample.error is not None]
    if failed:
        raise server.failure(f"a first request failed: {failed[0]}")
    after = scrape(server.metrics(), backend.counters)
    # An engine that tells only some of its counters is asked through its answers.
    phase = delta(before, after) if after.accepted is not None else Counters()
    told = [sample.server for sample in samples]
    record = spec_record(phase, told, choice.planned.plan.draft_tokens)
    if (problem := drafting_problem(record)) is not None:
        raise EngineError(
            f"{problem}.",
            where=choice.name,
            fix=f"Check it: museorch lint {arm.drafter.weights.path} --target {arm.target.path}; "
            "or serve with --speculation none.",
        )
    return record
