"""What is asked for, what was chosen, and why that cannot be started here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.base import Device, Weights
from backends.errors import EngineError, MuseorchError
from orchestrator.inputs.expand import Arm
from orchestrator.inputs.hub import NotFetched, Wanted, cache, command, named
from orchestrator.inputs.models import LoadedModel
from orchestrator.inputs.recipe import Recipe
from orchestrator.planning.plan import PlannedArm, unrunnable
from orchestrator.serving.launch import DEFAULT_HOST
from orchestrator.up.memory import GIB, Budget, free_disk, published_size


@dataclass(frozen=True)
class Options:
    """What was asked for; None leaves it to museorch. Holds no secret, so it can be kept."""

    recipe: str | None = None
    arm: str | None = None
    model: str | None = None
    device: Device | None = None
    backend: str | None = None
    speculation: str | None = None
    quant: str | None = None
    draft_tokens: int | None = None
    context_length: int | None = None
    slots: int | None = None
    threads: int | None = None
    host: str = DEFAULT_HOST
    port: int | None = None


@dataclass(frozen=True)
class Choice:
    """One arm, planned for serving, with what it needs."""

    recipe: Recipe
    near: Path
    """The folder its relative paths start from."""
    model: LoadedModel
    planned: PlannedArm
    budget: Budget

    @property
    def arm(self) -> Arm:
        return self.planned.arm

    @property
    def name(self) -> str:
        return f"{self.model.model.name}-{self.arm.backend}-{self.arm.speculation}"

    def problem(self) -> MuseorchError | None:
        """Why it cannot be started here: what no one can help first, what can be fetched last."""
        errors = [f for f in self.planned.plan.findings if f.level == "error"]
        if errors:
            return unrunnable([self.planned])
        if not self.budget.fits:
            return _too_little(self)
        if self.planned.engine is None:
            return unrunnable([self.planned])
        return _not_here(self) or unrunnable([self.planned])

    @property
    def _weights(self) -> list[Weights]:
        parts = [self.arm.target, *([self.arm.drafter.weights] if self.arm.drafter else [])]
        return [weights for weights in parts if weights.fetch is not None]

    def missing(self) -> list[Wanted]:
        """What the hub has to give before this can be started."""
        found = [named(w.path) for w in self._weights if not Path(w.path).is_absolute()]
        if self.arm.target.dummy:
            return found  # with a tokenizer of their own
        try:
            self.model.tokenizer_folder()
        except NotFetched as error:
            if Wanted(error.wanted.repo) not in found:
                found.append(error.wanted)
        return found

    def fetchable(self) -> bool:
        """Whether the hub's files are all that is missing."""
        return isinstance(self.problem(), NotHere) and not self.to_make()

    def to_make(self) -> list[str]:
        """The commands that make weights which are on no hub."""
        made = [w.fetch for w in self._weights if w.fetch and Path(w.path).is_absolute()]
        return list(dict.fromkeys(made))


class NotHere(EngineError):
    """Weights are not on this machine."""


def _not_here(choice: Choice) -> NotHere | None:
    """Everything that has to be brought here, at once."""
    wanted, made = choice.missing(), choice.to_make()
    if not wanted and not made:
        return None
    if not wanted:
        fix = f"Make them: {' && '.join(made)}"
        return NotHere("its weights are not made yet.", where=choice.name, fix=fix)
    commands = [*(command(one.repo, one.file) for one in wanted), *made]
    sizes = [published_size(weights, choice.model.model) for weights in choice._weights]
    size, free = sum(one for one in sizes if one is not None), free_disk(cache())
    room = f"{size / GIB:.1f} GiB to fetch, {free / GIB:.1f} GiB free at {cache()}"
    if size > free:
        fix = f"Make room there, or set HF_HUB_CACHE. Then: {' && '.join(commands)}"
    else:
        fix = f"Fetch them: {' && '.join(commands)}"
    return NotHere(
        f"{len(commands)} of its parts are not on this machine ({room}).",
        where=choice.name,
        fix=fix,
    )


def _too_little(choice: Choice) -> MuseorchError:
    needs, here = choice.budget, choice.budget.space
    assert here is not None
    parts = ", ".join(
        f"{part.name} {part.size / GIB:.1f}" for part in needs.parts if part.size is not None
    )
    return EngineError(
        f"needs {needs.needed / GIB:.1f} GiB ({parts}), and of {here.name} "
        f"{here.free / GIB:.1f} GiB are free.",
        where=choice.name,
        fix="Choose a smaller --quant or another --backend, fewer --slots, a shorter "
        "--context-length, or free memory.",
    )
