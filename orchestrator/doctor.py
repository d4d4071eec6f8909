"""One look at this machine: what is here, what can be served, what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backends import BACKENDS
from backends.base import Device
from backends.errors import InputError, MuseorchError
from orchestrator import patching
from orchestrator.environments import engines
from orchestrator.environments.engines import Engine
from orchestrator.inputs import hub
from orchestrator.inputs.models import Artefact, LoadedModel, TargetSpec, load_model, model_names
from orchestrator.measuring import environment
from orchestrator.up.choice import Choice, Options
from orchestrator.up.choose import ORDER, choose
from orchestrator.up.memory import free_disk, space
from orchestrator.up.state import everyone

SPECULATIONS = ("none", "dflash", "dspark")


def examine() -> dict[str, Any]:
    """Everything `doctor` prints, as data. Starts nothing and changes nothing."""
    device = engines.default_device()
    facts = environment.gather()
    found = engines.installed()
    runs = list(_runs(device))
    return {
        "schema": 1,
        "museorch": facts["museorch"]["version"],
        "machine": _machine(facts),
        "gpu": _gpu(facts, device),
        "engines": [_engine(engine) for engine in found],
        "unusable_engines": _unusable(found),
        "models": [_model(load_model(name, Path())) for name in model_names()],
        "servers": [{"name": state.name, "state": state.standing} for state in everyone()],
        "can_run": runs,
        "next": _next(runs, device),
    }


def _machine(facts: dict[str, Any]) -> dict[str, Any]:
    ram = space("cpu")
    assert ram is not None
    root = engines.cache_root()
    return {
        "platform": facts["platform"],
        "python": facts["python"],
        "cpu": facts["cpu"]["model"],
        "cpu_threads": facts["cpu"]["usable"] or facts["cpu"]["threads"],
        "ram_bytes": ram.total,
        "ram_free_bytes": ram.free,
        "cache": str(root),
        "cache_disk_free_bytes": free_disk(root),
        "hub_cache": str(hub.cache()),
    }


def _gpu(facts: dict[str, Any], device: Device) -> dict[str, Any]:
    cards = facts["gpus"]
    here = space("cuda") if cards else None
    reason = None
    if cards is None:
        reason = "nvidia-smi fails; the driver may not be loaded"
    elif not cards:
        shown = (
            "a GPU is shown, but there is no nvidia-smi" if device == "cuda" else "no NVIDIA GPU"
        )
        reason = shown
    return {
        "cards": cards or [],
        "reason": reason,
        "cuda": _cuda() if cards else None,
        "free_bytes": here.free if here is not None else None,
    }


def _cuda() -> str | None:
    """The newest CUDA the driver runs, as nvidia-smi's banner says."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    told = re.search(r"CUDA (?:UMD )?Version: *([0-9.]+)", done.stdout)
    return told.group(1) if told else None


def _engine(engine: Engine) -> dict[str, Any]:
    return {
        "name": engine.name,
        "backend": engine.backend,
        "version": engine.version,
        "device": engine.device,
        "owned": engine.owned,
        "executable": str(engine.executable),
        "patches": _patches(engine),
    }


def _patches(engine: Engine) -> dict[str, list[str]] | str | None:
    """Ids by state; a text where they cannot be looked at; None for an engine without any."""
    known = BACKENDS[engine.backend].patches
    if engine.packages is None or not known:
        return None
    try:
        if (reason := patching.missing_target(engine.packages, engine.backend)) is not None:
            return reason
        states: dict[str, list[str]] = {}
        for one in patching.status(engine.packages, known.values(), engine.device):
            states.setdefault(one.state, []).append(one.id)
    except MuseorchError as error:
        return error.message
    return states


def _unusable(found: list[Engine]) -> dict[str, str]:
    names = {engine.name for engine in found}
    problems = {name: engines.added_problem(name) for name in engines.added_names()}
    return {name: why for name, why in problems.items() if name not in names and why is not None}


def _model(model: LoadedModel) -> dict[str, Any]:
    target = model.model.target
    artefacts = [_artefact(model, "target", target, one) for one in target.artefacts]
    for family, head in model.model.drafters.items():
        artefacts += [_artefact(model, family, head, one) for one in head.artefacts]
    return {"name": model.model.name, "artefacts": artefacts}


def _artefact(
    model: LoadedModel, part: str, spec: TargetSpec, artefact: Artefact
) -> dict[str, Any]:
    weights = model.weights(spec, artefact)
    here = weights.fetch is None and Path(weights.path).exists()
    return {
        "part": part,
        "format": artefact.format,
        "quantisation": artefact.quantisation,
        "here": here,
        "path": weights.path if here else None,
        "bytes": artefact.bytes,
        "fetch": weights.fetch,
    }


def _runs(device: Device) -> Iterator[dict[str, Any]]:
    """Every model, engine and drafter: whether `up` would start it, or why not."""
    for name in model_names():
        for backend in ORDER[device]:
            for speculation in SPECULATIONS:
                options = Options(
                    model=name, device=device, backend=backend, speculation=speculation
                )
                row = {"model": name, "backend": backend, "speculation": speculation}
                try:
                    choice: Choice = choose(options)
                except InputError as error:
                    yield {**row, "ok": False, "reason": error.what, "fix": error.fix}
                    continue
                problem = choice.problem()
                yield {
                    **row,
                    "quantisation": choice.arm.target.quantisation,
                    "needs_bytes": choice.budget.needed,
                    "ok": problem is None,
                    "reason": problem.what if problem is not None else None,
                    "fix": problem.fix if problem is not None else None,
                }


def _next(runs: list[dict[str, Any]], device: Device) -> str:
    """The command that leads on from here."""
    wanted = "muse-glimmer-30b" if device == "cuda" else "tiny-muse"
    usable = [run for run in runs if run["ok"]]
    best = [run for run in usable if run["model"] == wanted] or usable
    drafting = [run for run in best if run["speculation"] == "dflash"] or best
    if drafting:
        run = drafting[0]
        return (
            f"museorch up --model {run['model']} --backend {run['backend']} "
            f"--speculation {run['speculation']}"
        )
    choice = choose(Options(model=wanted, device=device))
    problem = choice.problem()
    if problem is None:
        return "museorch up"
    return (problem.fix or problem.what).removeprefix("Run: ")
