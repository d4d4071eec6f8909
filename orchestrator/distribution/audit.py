"""The audit of a recipe's arms: draw, compare with the reference, correct for many tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.errors import EngineError, InputError
from orchestrator.distribution.counts import Context, contexts
from orchestrator.distribution.draw import MODES
from orchestrator.distribution.fit import ALPHA, Expected, Fit, Power, expect, fit, holm, power
from orchestrator.distribution.reference import Reference, reference
from orchestrator.environments.engines import WITH_TORCH, resolve
from orchestrator.job import Job
from orchestrator.load.sample import Sample

AS_ASKED = "as asked"
DIFFERS = "differs"
GROUPS: Mapping[str, Callable[[Context], bool]] = {
    "first token": lambda context: not context.prefix,
    "later tokens": lambda context: bool(context.prefix),
}


@dataclass(frozen=True)
class Row:
    """One arm in one mode at the first token or the later ones."""

    arm: str
    mode: str
    positions: str
    verdict: str
    p_adjusted: float
    """The smaller of both p-values, after Holm's correction over all rows; 0 if impossible."""
    noise: float
    fit: Fit
    power: Power

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {**{k: v for k, v in found.items() if k != "fit"}, **found["fit"]}


def judge(
    drawn: Mapping[str, Mapping[str, Sequence[Sample]]],
    prompts: Mapping[str, Sequence[int]],
    end: Sequence[int],
    look_up: Callable[[Mapping[str, Sequence[int]], Sequence[Any]], Reference],
) -> list[Row]:
    """Rows for `drawn` samples by arm and mode. `look_up` gives the reference for contexts."""
    tables = {
        (arm, mode): contexts(samples, end)
        for arm, modes in drawn.items()
        for mode, samples in modes.items()
    }
    keys = [(c.prompt, c.prefix) for table in tables.values() for c in table]
    found = look_up(prompts, keys)
    random = np.random.default_rng(0)
    groups: list[tuple[str, str, str, list[Expected]]] = []
    for (arm, mode), table in tables.items():
        expected = [
            expect(c, found.logits[c.prompt, c.prefix], MODES[mode], end, found.noise, random)
            for c in table
        ]
        for name, belongs in GROUPS.items():
            groups.append((arm, mode, name, [e for e in expected if belongs(e.context)]))
    fits = [fit(members, random) for *_, members in groups]
    adjusted = holm([p for one in fits for p in (one.p_surprise, one.p_fit)])
    rows = []
    for number, ((arm, mode, name, members), one) in enumerate(zip(groups, fits, strict=True)):
        p = 0.0 if one.impossible else min(adjusted[2 * number : 2 * number + 2])
        verdict = DIFFERS if p < ALPHA else AS_ASKED
        seen = power(members, 2 * len(groups))
        rows.append(Row(arm, mode, name, verdict, p, found.noise, one, seen))
    return rows


def reference_for(job: Job) -> tuple[Path, Path]:
    """(interpreter with transformers, checkpoint folder). Raises where there is none."""
    spec = job.model.model.target
    wanted = {item.arm.target.quantisation for item in job.planned}
    for artefact in spec.artefacts:
        weights = job.model.weights(spec, artefact)
        if artefact.format == "hf" and wanted == {artefact.quantisation} and not weights.fetch:
            return _python(job), Path(weights.path)
    raise InputError(
        f"the audit needs a Hugging Face checkpoint of the arms' own weights ({', '.join(wanted)}) "
        "on this machine, as the reference.",
        where=str(job.path),
        fix="Audit a recipe for tiny-muse, or one whose arms share one such checkpoint.",
    )


def _python(job: Job) -> Path:
    for item in job.planned:
        if item.engine is not None and item.engine.packages is not None:
            return Path(item.engine.executable)
    for backend in WITH_TORCH:
        try:
            return Path(resolve(backend, device=job.recipe.device).executable)
        except EngineError:
            continue
    raise EngineError(
        "the reference needs torch and transformers, which vLLM's or SGLang's environment has.",
        fix=f"museorch engines install vllm --device {job.recipe.device}",
    )


def look_up(job: Job) -> Callable[[Mapping[str, Sequence[int]], Sequence[Any]], Reference]:
    python, model = reference_for(job)

    def found(prompts: Mapping[str, Sequence[int]], keys: Sequence[Any]) -> Reference:
        return reference(python, model, prompts, keys, threads=job.recipe.serve.threads)

    return found
