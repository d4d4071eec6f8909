"""YAML files into validated models, with file, line and field in every complaint."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from backends.errors import InputError

Location = tuple[str | int, ...]
Model = TypeVar("Model", bound="Strict")
MAX_BYTES = 1_000_000


class Places(Protocol):
    """Where what was asked for stands: in a file, or on the command line."""

    def where(self, at: Location) -> str: ...


class Strict(BaseModel):
    """Base of everything read from a file: immutable, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Document:
    """Parsed YAML that remembers the line each field came from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = read_text(path)
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data: Any = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(
                f"not valid YAML: {_yaml_problem(error)}",
                where=f"{path}{_yaml_line(error)}",
                fix="Check indentation, colons and quotes near that line.",
            ) from None
        except RecursionError:
            raise InputError("YAML nested too deeply.", where=str(path)) from None
        self._lines: dict[Location, int] = {}
        if node is not None:
            self._index(node, (), set())
        if not isinstance(self.data, dict):
            found = "nothing" if self.data is None else f"a {type(self.data).__name__}"
            raise InputError(f"expected a mapping of fields, found {found}.", where=str(path))

    def _index(self, node: yaml.Node, at: Location, active: set[int]) -> None:
        if id(node) in active:
            raise InputError("YAML aliases form a loop.", where=str(self.path))
        self._lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen:
                    raise InputError(
                        f'field "{name}" is given twice.',
                        where=f"{self.path}:{key.start_mark.line + 1}",
                    )
                seen.add(name)
                self._lines[(*at, name)] = key.start_mark.line + 1
                self._index(value, (*at, name), active | {id(node)})
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self._index(item, (*at, position), active | {id(node)})

    def where(self, at: Location) -> str:
        """`file:line: field` of the deepest part of `at` that the file holds."""
        known = at
        while known and known not in self._lines:
            known = known[:-1]
        line = self._lines.get(known)
        return f"{self.path}{f':{line}' if line else ''}: {field_name(at)}"

    def _written(self, loc: Location) -> Location:
        """`loc` as the file has it: a lone value that was read as a list of one has no index."""
        at: list[str | int] = []
        value = self.data
        for part in loc:
            if isinstance(part, int) != isinstance(value, list):
                continue
            at.append(part)
            if isinstance(value, list):
                value = value[int(part)] if int(part) < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return tuple(at)

    def parse(self, model: type[Model]) -> Model:
        """Validate the document; the first problem becomes an InputError."""
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            raise self._complaint(error, model) from None

    def _complaint(self, error: ValidationError, model: type[BaseModel]) -> InputError:
        problems = sorted(error.errors(), key=lambda item: item["type"] == "missing")
        first = problems[0]
        at = self._written(first["loc"])
        more = f" ({len(problems) - 1} more after this one)" if len(problems) > 1 else ""
        if first["type"] == "extra_forbidden":
            known = _fields(model, at[:-1])
            return InputError(
                f"unknown field.{_suggest(str(at[-1]), known)}{more}", where=self.where(at)
            )
        if first["type"] == "missing":
            return InputError(f"missing field.{more}", where=self.where(at))
        text = str(first["msg"]).removeprefix("Value error, ").replace("Input should", "should")
        given = first["input"]
        hint = ""
        if first["type"] == "literal_error" and isinstance(given, str):
            expected = str(first["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
            hint = _suggest(given, expected.split(", "))
        shown = "" if isinstance(given, dict | list) else f" (found {given!r})"
        return InputError(f"{text}{shown}.{hint}{more}", where=self.where(at))


def read_text(path: Path) -> str:
    """A small UTF-8 text file, or an InputError that says what is wrong with it."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES:,} bytes; not a recipe.", where=str(path))
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            "no such file.", where=str(path), fix="`museorch recipes list` shows what is shipped."
        ) from None
    except IsADirectoryError:
        raise InputError("is a folder, not a file.", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 text (byte {error.start}); a recipe is a YAML file.", where=str(path)
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", where=str(path)) from None


def field_name(at: Sequence[Hashable]) -> str:
    """`("arms", 0, "backend")` as `arms[0].backend`."""
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _suggest(given: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    if close:
        return f' Did you mean "{close[0]}"?'
    return f" Known: {', '.join(known)}." if known else ""


def _fields(model: type[BaseModel], at: Location) -> list[str]:
    """Field names of the model found at `at` below `model`."""
    current: type[BaseModel] | None = model
    for part in at:
        if isinstance(part, int) or current is None:
            continue
        info = current.model_fields.get(str(part))
        current = _model_in(info.annotation) if info else current
    return sorted(current.model_fields) if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found:
            return found
    return None


def _yaml_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark is not None else ""


def _yaml_problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or str(error).splitlines()[0])
