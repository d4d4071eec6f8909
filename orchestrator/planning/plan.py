"""Arms to launch plans. Needs no engine: what is not installed is named, not required."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from backends import BACKENDS
from backends.base import Finding, LaunchPlan, ServeSpec
from backends.errors import EngineError, InputError, MuseorchError
from backends.simulate import fitted
from orchestrator.comparing.certify import NOTHING_DRAFTED
from orchestrator.environments.engines import Engine, default_version, resolve
from orchestrator.inputs.expand import Arm
from orchestrator.inputs.recipe import EngineChoice, Recipe
from orchestrator.planning import cards, engine_needs
from orchestrator.up.preflight import machine_findings

MISSING = ("not-installed", "not-fetched")
REAL = "real"
"""Acceptance earned by the drafter."""


@dataclass(frozen=True)
class PlannedArm:
    arm: Arm
    engine: Engine | None
    """None where the engine is not installed yet; such a plan can be read but not run."""
    spec: ServeSpec
    plan: LaunchPlan


@dataclass(frozen=True)
class Serving:
    """How a server differs that is there to be used and not to be measured."""

    host: str
    served_name: str


def plan_arm(recipe: Recipe, arm: Arm, serving: Serving | None = None) -> PlannedArm:
    """The launch plan of one arm, for the engine found here or for its default version."""
    choice = recipe.engines.get(arm.backend, EngineChoice())  # type: ignore[call-overload]
    missing: Finding | None = None
    try:
        engine: Engine | None = resolve(
            arm.backend,
            version=choice.version,
            device=recipe.device,
            executable=choice.executable,
        )
    except EngineError as error:
        engine = None
        what = f"{error.where}: {error.what}" if error.where else error.what
        missing = Finding("warning", "not-installed", what, error.fix)
    version = choice.version or default_version(arm.backend, recipe.device)
    serve = recipe.serve
    spec = ServeSpec(
        executable=str(engine.executable) if engine else f"$(museorch engines path {arm.backend})",
        engine_version=engine.version if engine else version,
        device=recipe.device,
        target=arm.target,
        drafter=arm.drafter,
        draft_tokens=arm.draft_tokens,
        context_length=serve.context_length,
        slots=max(recipe.workload.concurrency),
        kv_dtype=serve.kv_dtype,
        threads=serve.threads,
        extra_args=arm.engine_args,
        extra_env=dict(arm.env),
    )
    if serving is not None:
        name = serving.served_name
        spec = replace(spec, purpose="serve", host=serving.host, served_name=name)
    backend = BACKENDS[arm.backend]
    plan = backend.plan(spec)
    if arm.simulated is not None:
        try:
            told = fitted(arm.simulated, plan.draft_tokens, rates=backend.takes_rates)
            plan = backend.simulate(plan, told, recipe.device)
            arm = replace(arm, simulated=told)
        except InputError as error:
            raise InputError(error.what, where=arm.where, fix=error.fix) from None
    lacking = engine_needs.findings(engine, plan.modules) if engine else ()
    here = (*lacking, *machine_findings(spec, arm.backend))
    findings = (*plan.findings, *here, *((missing,) if missing else ()), *_unfetched(arm))
    changes: dict[str, Any] = {"findings": findings}
    if recipe.device == "cuda":
        variables, of_several = cards.setting(plan.env)
        changes["env"] = {**variables, **plan.env}
        changes["findings"] = (*findings, *((of_several,) if of_several else ()))
    if serve.start_timeout_s is not None:
        changes["start_timeout_s"] = serve.start_timeout_s
    return PlannedArm(arm, engine, spec, LaunchPlan(**{**plan.__dict__, **changes}))


def _unfetched(arm: Arm) -> list[Finding]:
    both = [arm.target, *([arm.drafter.weights] if arm.drafter else [])]
    return [
        Finding(
            "warning", "not-fetched", f"{weights.path} is not here.", f"Get it: {weights.fetch}"
        )
        for weights in both
        if weights.fetch is not None
    ]


def unrunnable(planned: Sequence[PlannedArm]) -> MuseorchError | None:
    """Why an arm cannot run here: what is wrong before what is only missing."""
    findings = [(item.arm.id, finding) for item in planned for finding in item.plan.findings]
    for arm, finding in findings:
        if finding.level == "error":
            return InputError(finding.text, where=arm, fix=finding.fix)
    for arm, finding in findings:
        if finding.code in MISSING:
            return EngineError(finding.text, where=arm, fix=finding.fix)
    return None


def plan_json(item: PlannedArm) -> dict[str, Any]:
    """The plan as data. Environment variables with secrets are not part of a plan."""
    plan = item.plan
    return {
        "id": item.arm.id,
        "backend": item.arm.backend,
        "engine_version": item.spec.engine_version,
        "installed": item.engine is not None,
        "speculation": item.arm.speculation,
        "draft_tokens": plan.draft_tokens,
        "acceptance": _acceptance(item.arm),
        "expected_length": item.arm.simulated.expected_length if item.arm.simulated else None,
        "target": asdict(item.arm.target),
        "drafter": asdict(item.arm.drafter) if item.arm.drafter else None,
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "patches": list(plan.patches),
        "overlays": [asdict(overlay) for overlay in plan.overlays],
        "findings": [asdict(finding) for finding in plan.findings],
        "conditions": dict(plan.conditions),
    }


def _acceptance(arm: Arm) -> str:
    if arm.simulated is not None:
        return str(arm.simulated)
    return NOTHING_DRAFTED if arm.target.dummy else REAL


def plan_text(item: PlannedArm) -> str:
    """One arm for a person: a command to copy, and what stands beside it."""
    plan = item.plan
    state = "" if item.engine else "  (not installed)"
    lines = [f"{item.arm.id}: {item.arm.backend} {item.spec.engine_version}{state}"]
    env = [f"{name}={shlex.quote(value)}" for name, value in sorted(plan.env.items())]
    words = [word if word.startswith("$(") else shlex.quote(word) for word in plan.argv]
    lines.append("  " + " \\\n    ".join(_wrap([*env, *words], 92)))
    for overlay in plan.overlays:
        lines.append(f"  {overlay.placeholder}: {overlay.source} with")
        lines += [f"    {new} = its {old}" for new, old in overlay.aliases.items()]
        lines += [f"    {key} = {value}" for key, value in overlay.changes.items()]
        lines.append(f"    because {overlay.why}")
    if plan.patches:
        lines.append(f"  patches: {', '.join(plan.patches)}")
    for finding in plan.findings:
        lines.append(f"  {finding.level}: {finding.text} {finding.fix or ''}".rstrip())
    return "\n".join(lines)


def _wrap(words: Sequence[str], width: int) -> list[str]:
    rows: list[str] = []
    for word in words:
        if rows and len(rows[-1]) + 1 + len(word) <= width and not word.startswith("--"):
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    return rows
