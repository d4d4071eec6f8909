"""What to serve: a recipe's arm, or of what the model has the first that fits this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from backends import BACKENDS
from backends.base import Device
from backends.errors import InputError
from orchestrator.environments.engines import default_device
from orchestrator.inputs.expand import Arm, expand
from orchestrator.inputs.models import LoadedModel, load_model
from orchestrator.inputs.plain_yaml import Location
from orchestrator.inputs.recipe import Recipe, load_recipe
from orchestrator.job import find_recipe
from orchestrator.planning.plan import Serving, plan_arm
from orchestrator.up.choice import Choice, Options
from orchestrator.up.memory import Space, budget, space
from orchestrator.up.preflight import memory_arguments

ORDER: Mapping[Device, tuple[str, ...]] = {
    "cuda": ("vllm", "sglang", "llamacpp"),
    "cpu": ("llamacpp", "vllm", "sglang"),
}
"""Where nothing is asked for: the fastest that fits a GPU, the lightest on a CPU."""
CONTEXT = 16384
SLOTS = 4
FLAGS = {
    "quantisation": "--quant",
    "speculation": "--speculation",
    "backend": "--backend",
    "draft_tokens": "--draft-tokens",
    "context_length": "--context-length",
}


class CommandLine:
    """Complaints about an arm that was made of flags name the flag."""

    def where(self, at: Location) -> str:
        return FLAGS.get(str(at[-1]), str(at[-1]))


def choose(options: Options) -> Choice:
    """The first that can run here now, else the first that fits, else what needs least memory.

    What it lacks is its `problem`. Raises InputError for what recipe or model do not have.
    """
    made = _model_choices if options.recipe is None else _recipe_choices
    choices = list(made(options))
    for choice in choices:
        if choice.problem() is None:
            return choice
    able = [one for one in choices if not _errors(one)] or choices
    fitting = [one for one in able if one.budget.fits]
    return fitting[0] if fitting else min(able, key=lambda one: one.budget.needed)


def _errors(choice: Choice) -> bool:
    return any(finding.level == "error" for finding in choice.planned.plan.findings)


def _recipe_choices(options: Options) -> Iterator[Choice]:
    path = find_recipe(str(options.recipe))
    recipe, document = load_recipe(path)
    if options.model is not None and options.model != recipe.model:
        raise InputError(
            f"the recipe serves {recipe.model}, not {options.model}.",
            where="--model",
            fix="Leave one of them out.",
        )
    if options.device is not None and options.device != recipe.device:
        raise InputError(
            f"the recipe is for {recipe.device}.", where="--device", fix="Change it in the recipe."
        )
    model = load_model(recipe.model, path.parent)
    arms = expand(recipe, document, model)
    wanted = [arm for arm in arms if all(has == asked for _, has, asked in _asked(arm, options))]
    # A plain arm is there to be compared with; it is served when asked for.
    wanted.sort(key=lambda arm: arm.drafter is None)
    if not wanted:
        known = ", ".join(arm.id for arm in arms)
        asked = " ".join(f"{flag} {asked}" for flag, _, asked in _asked(arms[0], options))
        what = f"no arm of the recipe is {asked}."
        raise InputError(what, where=str(path), fix=f"It has: {known}.")
    real = [arm for arm in wanted if arm.simulated is None]
    if not real:
        raise InputError(
            "its acceptance is simulated, so what it says means nothing.",
            where=wanted[0].id,
            fix="Choose another with --arm.",
        )
    here = space(recipe.device)
    for arm in real:
        yield _choice(_served(recipe, options), path.parent, model, arm, options, here)


def _asked(arm: Arm, options: Options) -> list[tuple[str, object, object]]:
    """What the flags want of an arm: flag, what the arm has, what is asked for."""
    pairs = (
        ("--arm", arm.id, options.arm),
        ("--backend", arm.backend, options.backend),
        ("--speculation", arm.speculation, options.speculation),
        ("--quant", arm.target.quantisation, options.quant),
        ("--draft-tokens", arm.draft_tokens, options.draft_tokens),
    )
    return [(flag, has, asked) for flag, has, asked in pairs if asked is not None]


def _model_choices(options: Options) -> Iterator[Choice]:
    if options.arm is not None:
        raise InputError("an arm is part of a recipe, and no recipe is named.", where="--arm")
    device = options.device or default_device()
    fallback = "muse-glimmer-30b" if device == "cuda" else "tiny-muse"
    model = load_model(options.model if options.model is not None else fallback, Path())
    if options.backend is not None and options.backend not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise InputError(f"no backend {options.backend!r}.", where="--backend", fix=known)
    here = space(device)
    last: InputError | None = None
    found = False
    for backend, quant in _candidates(options, model, device):
        recipe = _recipe(options, model, device, backend, quant)
        try:
            (arm,) = expand(recipe, CommandLine(), model)
        except InputError as error:
            last = error
            continue
        found = True
        yield _choice(recipe, Path(), model, arm, options, here)
    if not found:
        raise last or InputError(f"{model.model.name} has no weights for {options.backend}.")


def _candidates(options: Options, model: LoadedModel, device: Device) -> Iterator[tuple[str, str]]:
    """Backend and quantisation: every engine in its own format before any in a second one.

    Within a format in the order of the model file, which is the order of preference.
    """
    backends = [options.backend] if options.backend is not None else ORDER[device]
    if options.quant is not None:
        yield from ((backend, options.quant) for backend in backends)
        return
    artefacts = model.model.target.artefacts
    for choice in range(max(len(BACKENDS[backend].formats) for backend in backends)):
        for backend in backends:
            for kind in BACKENDS[backend].formats[choice : choice + 1]:
                yield from ((backend, a.quantisation) for a in artefacts if a.format == kind)


def _recipe(
    options: Options, model: LoadedModel, device: Device, backend: str, quant: str
) -> Recipe:
    """The recipe that the flags stand for."""
    has = model.model
    speculation = options.speculation or ("dflash" if "dflash" in has.drafters else "none")
    prompts = "chat" if "chat" in has.prompts else next(iter(has.prompts), "")
    data: dict[str, Any] = {
        "schema": 1,
        "name": "up",
        "model": has.name,
        "device": device,
        "workload": {"prompts": prompts, "concurrency": SLOTS},
        "serve": {
            "context_length": min(has.max_context, CONTEXT),
            "kv_dtype": "f16" if backend == "llamacpp" and device == "cuda" else "bf16",
        },
        "arms": [
            {
                "backend": backend,
                "speculation": speculation,
                "quantisation": quant,
                "draft_tokens": options.draft_tokens,
            }
        ],
    }
    return _served(Recipe.model_validate(data), options)


def _served(recipe: Recipe, options: Options) -> Recipe:
    """`recipe` with what the flags say of the server."""
    asked = {
        "context_length": options.context_length,
        "threads": options.threads,
        "port": options.port,
    }
    changes = {name: value for name, value in asked.items() if value is not None}
    workload = recipe.workload
    if options.slots is not None:
        workload = workload.model_copy(update={"concurrency": [options.slots]})
    serve = recipe.serve.model_copy(update=changes)
    return recipe.model_copy(update={"serve": serve, "workload": workload})


def _choice(
    recipe: Recipe,
    near: Path,
    model: LoadedModel,
    arm: Arm,
    options: Options,
    here: Space | None,
) -> Choice:
    limit = model.model.max_context
    if recipe.serve.context_length > limit:
        raise InputError(
            f"a context of {recipe.serve.context_length} is above the {limit} of "
            f"{model.model.name}.",
            where="--context-length",
            fix=f"Use at most {limit}.",
        )
    serving = Serving(options.host, model.model.name)
    arm = replace(arm, engine_args=(*memory_arguments(arm, recipe.device, here), *arm.engine_args))
    planned = plan_arm(recipe, arm, serving)
    needs = budget(arm.backend, planned.spec, model.model, here)
    return Choice(recipe, near, model, planned, needs)
