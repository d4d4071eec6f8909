"""Recipe to arms: the product of the lists in each arm, with names and weights filled in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from backends import BACKENDS
from backends.base import Drafter, Speculation, Weights
from backends.errors import InputError
from backends.simulate import Simulated
from orchestrator.dummy.place import dummy_weights
from orchestrator.inputs.document import Places, suggestion
from orchestrator.inputs.models import LoadedModel
from orchestrator.inputs.plain_yaml import Location
from orchestrator.inputs.recipe import ArmSpec, Recipe


@dataclass(frozen=True)
class Arm:
    """One thing under test: an engine, weights, a drafter and K."""

    id: str
    backend: str
    target: Weights
    drafter: Drafter | None
    draft_tokens: int | None
    engine_args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    simulated: Simulated | None = None
    where: str = field(default="", compare=False)
    """The place in the recipe that asks for it."""

    @property
    def speculation(self) -> Speculation:
        return self.drafter.family if self.drafter else "none"


def expand(recipe: Recipe, document: Places, model: LoadedModel) -> tuple[Arm, ...]:
    """All arms in the order written. Raises InputError with the line at fault."""
    limit = model.model.max_context
    if recipe.serve.context_length > limit:
        raise InputError(
            f"a context of {recipe.serve.context_length} is above the {limit} of "
            f"{model.model.name}.",
            where=document.where(("serve", "context_length")),
            fix=f"Use at most {limit}.",
        )
    arms: list[Arm] = []
    for index, spec in enumerate(recipe.arms):
        at: Location = ("arms", index)
        for arm in _expand_one(spec, document, at, model, dummy=recipe.weights == "dummy"):
            if arm.id in {other.id for other in arms}:
                raise InputError(
                    f'two arms are called "{arm.id}".',
                    where=document.where(at),
                    fix="Give one an id of its own.",
                )
            arms.append(arm)
    reference = recipe.order.reference
    ids = [arm.id for arm in arms]
    if reference is not None and reference not in ids:
        raise no_such_arm(reference, ids, document.where(("order", "reference")))
    return tuple(arms)


def no_such_arm(name: str, known: Sequence[str], where: str) -> InputError:
    hint = suggestion(name, known) or f"Arms: {', '.join(known)}."
    return InputError(f'no arm is called "{name}".', where=where, fix=hint)


def _expand_one(
    spec: ArmSpec, document: Places, at: Location, model: LoadedModel, *, dummy: bool
) -> Iterator[Arm]:
    simulated = _simulated(spec)
    if simulated is not None and spec.speculation == ["none"]:
        raise InputError(
            "acceptance is simulated, but speculation is none.",
            where=document.where((*at, "acceptance")),
        )
    if simulated is None and dummy and spec.speculation != ["none"]:
        raise InputError(
            "a drafter of dummy weights is never accepted, so acceptance has to be simulated.",
            where=document.where(at),
            fix="Add acceptance: {simulate: [..]} or {length: L}.",
        )
    for backend, speculation, quantisation, k in itertools.product(
        spec.backend, spec.speculation, spec.quantisation, spec.draft_tokens
    ):
        target = _target(model, backend, quantisation, document, at, dummy=dummy)
        drafter = None
        if speculation != "none":
            drafter = _drafter(model, speculation, backend, quantisation, document, at, dummy=dummy)
            k = _draft_tokens(drafter, k, document.where((*at, "draft_tokens")))
        elif k is not None and len(spec.speculation) == 1:
            raise InputError(
                "draft_tokens is set, but speculation is none.",
                where=document.where((*at, "draft_tokens")),
            )
        elif k != spec.draft_tokens[0]:
            continue  # one plain arm beside several K
        else:
            k = None
        yield Arm(
            id=spec.id or _name(spec, backend, speculation, quantisation, k),
            backend=backend,
            target=target,
            drafter=drafter,
            draft_tokens=k,
            engine_args=tuple(spec.engine_args),
            env=tuple(sorted(spec.env.items())),
            simulated=simulated if drafter is not None else None,
            where=document.where(at),
        )


def _name(
    spec: ArmSpec, backend: str, speculation: Speculation, quantisation: str, k: int | None
) -> str:
    """Of an arm without an id: what it is, and whatever tells it from the others of its line."""
    name = f"{backend}-{'base' if speculation == 'none' else speculation}"
    name += f"-{quantisation}" if len(spec.quantisation) > 1 else ""
    name += f"-k{k}" if k is not None and len(spec.draft_tokens) > 1 else ""
    return name + ("-simulated" if spec.acceptance is not None and speculation != "none" else "")


def _simulated(spec: ArmSpec) -> Simulated | None:
    told = spec.acceptance
    if told is None:
        return None
    return Simulated(tuple(told.simulate) if told.simulate is not None else None, told.length)


def _draft_tokens(drafter: Drafter, asked: int | None, where: str) -> int:
    if asked is None:
        return drafter.max_draft_tokens
    if asked > drafter.max_draft_tokens:
        raise InputError(
            f"K {asked} is above the {drafter.max_draft_tokens} drafts of the drafter's block "
            f"({drafter.family}, block {drafter.block_size}).",
            where=where,
            fix=f"Use 1 to {drafter.max_draft_tokens}.",
        )
    return asked


def _drafter(
    model: LoadedModel,
    family: Literal["dflash", "dspark"],
    backend: str,
    quantisation: str,
    document: Places,
    at: Location,
    *,
    dummy: bool,
) -> Drafter:
    """In the target's quantisation where there is one, else in the first that fits."""
    where = document.where((*at, "speculation"))
    spec = model.model.drafters.get(family)
    if spec is None:
        known = ", ".join(sorted(model.model.drafters))
        raise InputError(
            f"{model.model.name} has no {family} drafter.",
            where=where,
            fix=f"It has: {known}." if known else None,
        )
    if dummy:
        return model.drafter(family, dummy_weights(model, family, backend, quantisation))
    fitting = [a for a in spec.artefacts if a.format in BACKENDS[backend].drafter_formats]
    if not fitting:
        raise InputError(f"no {family} drafter in a format {backend} reads.", where=where)
    chosen = next((a for a in fitting if a.quantisation == quantisation), fitting[0])
    return model.drafter(family, _present(model.weights(spec, chosen), where))


def _target(
    model: LoadedModel,
    backend: str,
    quantisation: str,
    document: Places,
    at: Location,
    *,
    dummy: bool,
) -> Weights:
    """In the first format of the engine that has the quantisation."""
    where, spec = document.where((*at, "quantisation")), model.model.target
    if dummy:
        try:
            return dummy_weights(model, "target", backend, quantisation)
        except InputError as error:
            raise InputError(error.what, where=error.where or where, fix=error.fix) from None
    formats = BACKENDS[backend].formats
    for format_ in formats:
        for artefact in spec.artefacts:
            if (artefact.format, artefact.quantisation) == (format_, quantisation):
                return _present(model.weights(spec, artefact), where)
    has = sorted({a.quantisation for a in spec.artefacts if a.format in formats})
    raise InputError(
        f"{model.model.name} has no {'/'.join(formats)} weights in {quantisation} for {backend}.",
        where=where,
        fix=f"It has: {', '.join(has)}." if has else None,
    )


def _present(weights: Weights, where: str) -> Weights:
    if weights.fetch is None and not Path(weights.path).exists():
        kind = "GGUF file" if weights.format == "gguf" else "checkpoint folder"
        raise InputError(
            f"no such {kind}: {weights.path}",
            where=where,
            fix="Correct the path in the model file.",
        )
    return weights
