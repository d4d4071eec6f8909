"""Models museorch knows: artefacts, shapes, token ids. One YAML file each in recipes/models."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

import recipes
from backends.base import Drafter, Weights
from backends.errors import InputError
from orchestrator.document import Document, Strict

RECIPES = Path(recipes.__file__).parent


class Artefact(Strict):
    """One set of weights: a file or folder shipped or local, or a place on the hub."""

    format: Literal["hf", "gguf"]
    quantisation: str
    path: str | None = Field(default=None, description="Relative to recipes/, or absolute")
    hub: str | None = Field(default=None, description="Repository id on the Hugging Face hub")
    file: str | None = Field(default=None, description="File inside the hub repository")

    @model_validator(mode="after")
    def _one_place(self) -> Artefact:
        if (self.path is None) == (self.hub is None):
            raise ValueError("an artefact has either a path or a hub repository")
        return self

    def location(self, base: Path) -> str:
        """The path, or for a hub artefact what an engine or a download is given."""
        if self.path is not None:
            return str(base / self.path)
        return f"{self.hub}/{self.file}" if self.file else str(self.hub)


class Tokens(Strict):
    bos: int
    end: list[int] = Field(min_length=1, description="Ids that end a reply")
    pad: int
    mask: int


class TargetSpec(Strict):
    identity: str
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
        default=None, description="Folder with tokenizer.json and chat_template.jinja"
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

    def weights(self, spec: TargetSpec, format_: str, quantisation: str) -> Weights | None:
        """The artefact of that format and quantisation, or None."""
        for artefact in spec.artefacts:
            if artefact.format == format_ and artefact.quantisation == quantisation:
                return Weights(
                    artefact.location(self.base), artefact.format, quantisation, spec.identity
                )
        return None

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


def model_names() -> list[str]:
    return sorted(path.stem for path in (RECIPES / "models").glob("*.yaml"))


def load_model(name: str, near: Path) -> LoadedModel:
    """A shipped model by name, or a model file (relative to `near`)."""
    shipped = RECIPES / "models" / f"{name}.yaml"
    if shipped.is_file():
        document, base = Document(shipped), RECIPES
    elif name.endswith((".yaml", ".yml")):
        path = near / name
        document, base = Document(path), path.parent
    else:
        names = model_names()
        close = difflib.get_close_matches(name, names, n=1)
        hint = f'Did you mean "{close[0]}"?' if close else f"Known: {', '.join(names)}."
        raise InputError(f'unknown model "{name}".', where="model", fix=hint)
    return LoadedModel(document.parse(Model), document, base)
