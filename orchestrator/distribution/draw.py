"""Start one arm's server and let it answer every prompt many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backends import BACKENDS
from backends.base import Request, Sampling
from backends.errors import EngineError
from backends.protocol import Backend
from orchestrator import patching
from orchestrator.inputs.workload import Prompt
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.sample import Sample, append
from orchestrator.planning.plan import PlannedArm
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import serve

MODES: Mapping[str, Sampling] = {
    "t1.0": Sampling(1.0, 0.95, 64),
    "t0.6": Sampling(0.6, 0.95, 64),
}
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Asked:
    """How much is drawn from every arm."""

    prompts: tuple[Prompt, ...]
    end: tuple[int, ...]
    samples: int
    """Answers to each prompt."""
    tokens: int
    """Longest answer. The first token comes without the drafter's help."""
    seed: int

    def requests(self, sampling: Sampling) -> list[Request]:
        """Prompts in turn, so that a batch holds different ones. Seeds differ throughout."""
        return [
            Request(
                id=prompt.id,
                prompt_ids=prompt.token_ids,
                max_tokens=self.tokens,
                sampling=sampling,
                seed=self.seed + number * len(self.prompts) + index,
                end_token_ids=self.end,
                fixed_length=False,
            )
            for number in range(self.samples)
            for index, prompt in enumerate(self.prompts)
        ]


def draw(
    item: PlannedArm,
    asked: Asked,
    folder: Path,
    *,
    patch_in_place: bool = False,
    backend: Backend | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Sample]]:
    """Samples by mode, also kept in `folder`/samples.jsonl.

    Raises EngineError when the engine does not come up, dies, or answers with an error.
    """
    assert item.engine is not None, "require_runnable has been called"
    backend = backend if backend is not None else BACKENDS[item.arm.backend]
    if item.engine.packages is not None:
        patching.ensure(
            item.engine.packages,
            [backend.patches[name] for name in item.plan.patches],
            owned=item.engine.owned,
            in_place=patch_in_place,
        )
    folder.mkdir(parents=True, exist_ok=True)
    overlays = {
        overlay.placeholder: str(materialise(overlay, folder / "overlays"))
        for overlay in item.plan.overlays
    }
    probe = replace(asked.requests(next(iter(MODES.values())))[0], max_tokens=2)
    found: dict[str, list[Sample]] = {}
    with serve(
        item.plan,
        backend,
        folder=folder,
        probe=probe,
        model=item.spec.served_name,
        overlay_paths=overlays,
        on_progress=on_progress,
    ) as server:
        for mode, sampling in MODES.items():
            requests = asked.requests(sampling)
            on_progress(f"{mode}: {len(requests)} answers of up to {asked.tokens} tokens")
            found[mode] = run_phase(
                server.url,
                backend,
                item.spec.served_name,
                requests,
                concurrency=item.spec.slots,
                context=PhaseContext(item.arm.id, mode, 1),
                on_sample=lambda sample: append(folder / "samples.jsonl", sample),
                should_stop=lambda: server.exit_reason() is not None,
                timeout_s=TIMEOUT_S,
            )
            _require_whole(item.arm.id, mode, found[mode], len(requests), server.exit_reason(1.0))
            if item.arm.drafter is not None:
                _require_drafted(item.arm.id, mode, found[mode])
    return found


def _require_drafted(arm: str, mode: str, samples: Sequence[Sample]) -> None:
    """Every engine tells of drafts with its answers, so silence is a drafter that did nothing."""
    if not any(one.server is not None and one.server.drafted for one in samples):
        raise EngineError(
            f"nothing was drafted during {mode}, so its text says nothing of the drafter", where=arm
        )


def _require_whole(
    arm: str, mode: str, samples: Sequence[Sample], wanted: int, died: str | None
) -> None:
    """An audit of half the answers could hide the half that went wrong."""
    failed = [sample.error for sample in samples if sample.error is not None]
    if died is not None:
        raise EngineError(f"the server ended during {mode}: {died}", where=arm)
    if failed or len(samples) < wanted:
        first = failed[0] if failed else "not sent"
        raise EngineError(
            f"{wanted - len(samples) + len(failed)} of {wanted} answers of {mode} failed; "
            f"the first: {first}",
            where=arm,
        )
