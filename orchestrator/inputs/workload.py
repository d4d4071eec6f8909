"""Prompts to requests: rendered once to token ids, identical for every arm."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Request
from backends.errors import InputError
from orchestrator.inputs.document import read_text
from orchestrator.inputs.models import LoadedModel
from orchestrator.inputs.modes import Mode
from orchestrator.inputs.recipe import RandomPrompts, Recipe

KINDS = ("messages", "text", "token_ids")
TEMPLATE_ERRORS = "the chat template could not render this prompt"


@dataclass(frozen=True)
class Prompt:
    id: str
    token_ids: tuple[int, ...]


def render_prompts(recipe: Recipe, model: LoadedModel, near: Path) -> tuple[Prompt, ...]:
    """The recipe's prompts as token ids. Raises InputError with file and line."""
    asked = recipe.workload.prompts
    if isinstance(asked, RandomPrompts):
        return _random_prompts(asked.random, recipe, model)
    path = model.prompt_file(asked, near)
    rows = _rows(path)
    count = max(recipe.workload.count)
    if len(rows) < count:
        raise InputError(
            f"holds {len(rows)} prompts, but workload.count asks for {count}.",
            where=str(path),
            fix="Lower count or add prompts.",
        )
    tokenizer = _Tokenizer(model, path)
    prompts = tuple(
        Prompt(str(row["id"]), tokenizer.ids(row, f"{path}:{line}")) for line, row in rows[:count]
    )
    for prompt, (line, _) in zip(prompts, rows, strict=False):
        _check_room(prompt, recipe, f"{path}:{line}")
    return prompts


def _check_room(prompt: Prompt, recipe: Recipe, where: str) -> None:
    output, context = recipe.workload.output_tokens, recipe.serve.context_length
    if len(prompt.token_ids) + output > context:
        raise InputError(
            f'prompt "{prompt.id}" has {len(prompt.token_ids)} tokens; with {output} output tokens '
            f"it does not fit a context of {context}.",
            where=where,
            fix="Raise serve.context_length or lower workload.output_tokens.",
        )


def _random_prompts(tokens: int, recipe: Recipe, model: LoadedModel) -> tuple[Prompt, ...]:
    """Uniform over the ids of ordinary text. A prompt depends on the seed and its place alone."""
    ordinary = model.model.tokens.ordinary
    if ordinary is None:
        raise InputError(
            f"{model.model.name} does not say which token ids are ordinary text.",
            where=str(model.document.path),
            fix="Add `ordinary: [first, one after the last]` to its tokens.",
        )
    prompts = []
    for index in range(max(recipe.workload.count)):
        draw = random.Random(f"{recipe.workload.seed} {index}")
        ids = tuple(draw.randrange(*ordinary) for _ in range(tokens))
        prompts.append(Prompt(f"random-{index}", ids))
    _check_room(prompts[0], recipe, "workload.prompts")
    return tuple(prompts)


def prompts_hash(prompts: Sequence[Prompt]) -> str:
    """sha256 over ids and token ids, for the match certificate."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps([prompt.id, prompt.token_ids]).encode())
    return digest.hexdigest()


def render_requests(
    prompts: Sequence[Prompt], recipe: Recipe, mode: Mode, end_token_ids: Sequence[int]
) -> tuple[Request, ...]:
    """One request per prompt. Seeds depend on the prompt's place only, so arms share them."""
    return tuple(
        Request(
            id=prompt.id,
            prompt_ids=prompt.token_ids,
            max_tokens=recipe.workload.output_tokens,
            sampling=mode.sampling,
            seed=recipe.workload.seed + index,
            end_token_ids=tuple(end_token_ids),
            fixed_length=(mode.stop or recipe.workload.stop) == "fixed",
        )
        for index, prompt in enumerate(prompts)
    )


def _rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    rows: list[tuple[int, dict[str, Any]]] = []
    seen: set[str] = set()
    for line, text in enumerate(read_text(path).splitlines(), start=1):
        if not text.strip():
            continue
        where = f"{path}:{line}"
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"not a JSON object: {error.msg}.", where=where) from None
        if not isinstance(row, dict) or sum(kind in row for kind in KINDS) != 1:
            raise InputError(f"needs an id and one of {', '.join(KINDS)}.", where=where)
        unknown = sorted(set(row) - {"id", *KINDS})
        if unknown:
            raise InputError(f'unknown field "{unknown[0]}".', where=where)
        name = str(row.setdefault("id", str(line)))
        if name in seen:
            raise InputError(f'the id "{name}" stands twice.', where=where)
        seen.add(name)
        rows.append((line, row))
    if not rows:
        raise InputError(
            "holds no prompts.",
            where=str(path),
            fix='Write one JSON object a line: {"id": "a", "text": "..."}.',
        )
    return rows


class _Tokenizer:
    """Loads the tokenizer and the template only when a prompt needs them."""

    def __init__(self, model: LoadedModel, path: Path) -> None:
        self._model = model
        self._path = path
        self._loaded: Any = None
        self._template: Any = None

    def ids(self, row: dict[str, Any], where: str) -> tuple[int, ...]:
        if "token_ids" in row:
            ids = row["token_ids"]
        elif "text" in row:
            ids = [self._model.model.tokens.bos, *self._encode(row["text"], where)]
        else:
            ids = self._encode(self._render(row["messages"], where), where)
        if not isinstance(ids, list) or not ids:
            raise InputError("a prompt needs at least one token id.", where=where)
        vocab = self._model.model.vocab_size
        for token in ids:
            if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab:
                raise InputError(
                    f"token id {token!r} is outside the vocabulary of {vocab}.", where=where
                )
        return tuple(ids)

    def _folder(self, where: str) -> Path:
        folder = self._model.tokenizer_folder()
        if folder is None:
            raise InputError(
                f"{self._model.model.name} names no tokenizer, so prompts must be token_ids.",
                where=where,
            )
        return folder

    def _encode(self, text: Any, where: str) -> list[int]:
        if not isinstance(text, str) or not text:
            raise InputError("text must be a non-empty string.", where=where)
        if self._loaded is None:
            from tokenizers import Tokenizer

            file = self._folder(where) / "tokenizer.json"
            if not file.is_file():
                raise InputError("no such file.", where=str(file))
            self._loaded = Tokenizer.from_file(str(file))
        return list(self._loaded.encode(text, add_special_tokens=False).ids)

    def _render(self, messages: Any, where: str) -> str:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if self._template is None:
            # The settings chat templates are written for, as transformers renders them.
            environment = ImmutableSandboxedEnvironment(
                trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
            )
            environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
            environment.globals["raise_exception"] = _raise_exception
            folder = self._folder(where)
            settings = json.loads(read_text(folder / "tokenizer_config.json"))
            for name in ("bos_token", "eos_token"):
                environment.globals[name] = settings.get(name, "")
            self._template = environment.from_string(read_text(folder / "chat_template.jinja"))
        try:
            return str(self._template.render(messages=messages, add_generation_prompt=True))
        except (TemplateError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{TEMPLATE_ERRORS}: {error}.", where=where) from None


def _raise_exception(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)
