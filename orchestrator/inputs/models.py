"""Models museorch knows: artefacts, shapes, token ids. One YAML file each in recipes/models."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

import recipes
from backends.base import Drafter, Weights
from backends.errors import InputError
from orchestrator.environments.engines import cache_root
from orchestrator.inputs import hub
from orchestrator.inputs.document import Document, Strict

RECIPES = Path(recipes.__file__).parent


class Artefact(Strict):
    """One set of weights: shipped or local, on the hub, or made here by `museorch convert`."""

    format: Literal["hf", "gguf"]
    quantisation: str
    path: str | None = Field(default=None, description="Relative to recipes/, or absolute")
    hub: str | None = Field(default=None, description="Repository id on the Hugging Face hub")
    file: str | None = Field(default=None, description="File inside the hub repository")
    converted: Literal[True] | None = Field(
        default=None,
        description="Made by `museorch convert` of this shipped model, in museorch's cache",
    )
    bytes: int | None = Field(default=None, ge=1, description="Size of the weights as published")
    also: list[str] = Field(default=[], description="Other names of its quantisation in reports")

    @model_validator(mode="after")
    def _one_place(self) -> Artefact:
        if [self.path, self.hub, self.converted].count(None) != 2:
            raise ValueError("an artefact has one of path, hub and converted")
        return self


class Tokens(Strict):
    bos: int
    end: list[int] = Field(min_length=1, description="Ids that end a reply")
    pad: int
    mask: int
    ordinary: tuple[int, int] | None = Field(
        default=None,
        strict=False,  # a list in YAML
        description="First id of ordinary text, and the one after the last",
    )


class Attention(Strict):
    """What the size of the KV cache follows from."""

    full_layers: int = Field(ge=0)
    sliding_layers: int = Field(ge=0)
    window: int = Field(ge=1, description="Tokens a sliding layer keeps")
    kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)


class TargetSpec(Strict):
    identity: str
    attention: Attention | None = None
    config: str | None = Field(
        default=None,
        description="Its config.json, relative to recipes/: the shape of dummy weights",
    )
    artefacts: list[Artefact] = Field(min_length=1)


class DrafterSpec(TargetSpec):
    block_size: int = Field(ge=2)
    max_draft_tokens: int = Field(ge=1)
    target_layer_ids: list[int] = Field(min_length=1)
    sample_from_anchor: bool | None = None


class Model(Strict):
    """A target, its drafters, its tokenizer and its prompt sets."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    title: str
    licence: str
    vocab_size: int
    max_context: int
    tokens: Tokens
    tokenizer: str | None = Field(
        default=None,
        description="Folder with tokenizer.json and chat_template.jinja, or hub:REPOSITORY",
    )
    target: TargetSpec
    drafters: dict[Literal["dflash", "dspark"], DrafterSpec] = {}
    prompts: dict[str, str] = {}


class LoadedModel:
    """A model file together with the folder its paths are relative to."""

    def __init__(self, model: Model, document: Document, base: Path) -> None:
        self.model = model
        self.document = document
        self.base = base

    def tokenizer_folder(self) -> Path | None:
        """Where tokenizer.json lies; None where the model names no tokenizer.

        Raises NotFetched where it is on the hub and not here.
        """
        place = self.model.tokenizer
        if place is None:
            return None
        if not place.startswith("hub:"):
            return self.base / place
        repo = place.removeprefix("hub:")
        found = hub.cached(repo, "tokenizer.json")
        if found is None:
            raise hub.NotFetched(repo, "tokenizer.json")
        return found.parent

    def weights(self, spec: TargetSpec, artefact: Artefact) -> Weights:
        """As an engine is given them: a path, and how to get what is not here yet."""
        fetch = None
        if artefact.converted:
            path = converted_folder() / f"{spec.identity}-{artefact.quantisation.upper()}.gguf"
            where, fetch = str(path), None if path.exists() else self._convert_command()
        elif artefact.hub is None:
            where = str(self.base / str(artefact.path))
        else:
            found = hub.cached(artefact.hub, artefact.file)
            where = str(found) if found else "/".join(filter(None, (artefact.hub, artefact.file)))
            fetch = None if found else hub.command(artefact.hub, artefact.file)
        return Weights(where, artefact.format, artefact.quantisation, spec.identity, fetch)

    def _convert_command(self) -> str:
        """Makes every artefact of this model that is to be converted."""
        words = ["museorch convert", self.model.name]
        quantisations: list[str] = []
        for family, spec in (("", self.model.target), *self.model.drafters.items()):
            made = [a.quantisation.upper() for a in spec.artefacts if a.converted]
            quantisations += made
            words += ["--drafter", family] if made and family else []
        return " ".join([*words, "--quant", ",".join(dict.fromkeys(quantisations))])

    def drafter(self, family: Literal["dflash", "dspark"], weights: Weights) -> Drafter:
        spec = self.model.drafters[family]
        return Drafter(
            family=family,
            weights=weights,
            block_size=spec.block_size,
            max_draft_tokens=spec.max_draft_tokens,
            target_layer_ids=tuple(spec.target_layer_ids),
            sample_from_anchor=spec.sample_from_anchor,
            vocab_size=self.model.vocab_size,
        )

    def prompt_file(self, name: str, near: Path) -> Path:
        """A prompt set of this model, or a file: relative to `near`, else to the working folder."""
        if name in self.model.prompts:
            return self.base / self.model.prompts[name]
        for path in (near / name, Path(name)):
            if path.is_file():
                return path
        known = ", ".join(sorted(self.model.prompts))
        raise InputError(
            f'no prompt set and no file "{name}".',
            where="workload.prompts",
            fix=f"Prompt sets of {self.model.name}: {known}." if known else None,
        )


def converted_folder() -> Path:
    """Where `museorch convert` puts files when no folder is named."""
    return cache_root() / "gguf"


def model_names() -> list[str]:
    return sorted(path.stem for path in (RECIPES / "models").glob("*.yaml"))


def load_model(name: str, near: Path) -> LoadedModel:
    """A shipped model by name, or a model file (relative to `near`)."""
    shipped = RECIPES / "models" / f"{name}.yaml"
    if shipped.is_file():
        document, base = Document(shipped), RECIPES
    elif name.endswith((".yaml", ".yml")):
        path = near / name
        # Absolute: engines run in a folder of their own.
        document, base = Document(path), path.parent.absolute()
    else:
        names = model_names()
        close = difflib.get_close_matches(name, names, n=1)
        hint = f'Did you mean "{close[0]}"?' if close else f"Known: {', '.join(names)}."
        raise InputError(f'unknown model "{name}".', where="model", fix=hint)
    return LoadedModel(document.parse(Model), document, base)


def quantisation_names(model: str) -> dict[str, str]:
    """Other name to the one in use, by the model's file; {} for a model without one."""
    if not (RECIPES / "models" / f"{model}.yaml").is_file():
        return {}
    artefacts = load_model(model, RECIPES).model.target.artefacts
    return {other: one.quantisation for one in artefacts for other in one.also}
