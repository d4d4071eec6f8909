"""YAML files into validated models, with file, line and field in every complaint."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
)

from backends.errors import InputError
from orchestrator.inputs import plain_yaml
from orchestrator.inputs.plain_yaml import Location

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound="Strict")
Item = TypeVar("Item")
MAX_BYTES = 1_000_000
MAX_SHOWN = 80


class Places(Protocol):
    """Where what was asked for stands: in a file, or on the command line."""

    def where(self, at: Location) -> str: ...


class Strict(BaseModel):
    """Base of everything read from a file: immutable, of exact types, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _ScalarToo:
    """Says in the JSON schema that a lone value stands for a list of one."""

    def __get_pydantic_json_schema__(
        self, core: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        return {"anyOf": [schema["items"], schema]}


OneOrMany = Annotated[list[Item], BeforeValidator(_listed), Field(min_length=1), _ScalarToo()]


class Document:
    """Parsed YAML that remembers the line each field came from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = read_text(path)
        self.data, self._lines = plain_yaml.load(self.text, str(path))
        if not isinstance(self.data, dict):
            found = "nothing" if self.data is None else f"a {type(self.data).__name__}"
            raise InputError(f"expected a mapping of fields, found {found}.", where=str(path))

    def where(self, at: Location) -> str:
        """`file:line: field` of the deepest part of `at` that the file holds."""
        known = at
        while known and known not in self._lines:
            known = known[:-1]
        line = self._lines.get(known)
        return f"{self.path}{f':{line}' if line else ''}: {field_name(at)}"

    def _written(self, loc: Location, *, missing: bool) -> Location:
        """`loc` as the file has it, without what pydantic adds: the index into a lone value that
        was read as a list of one, and the name of a shape that a field may have."""
        at: list[str | int] = []
        value = self.data
        for number, part in enumerate(loc, start=1):
            if isinstance(part, int) and isinstance(value, list):
                value = value[part] if part < len(value) else None
            elif isinstance(value, dict) and part in value:
                value = value[part]
            elif not (missing and number == len(loc)):
                continue
            at.append(part)
        return tuple(at)

    def parse(self, model: type[Model]) -> Model:
        """Validate the document; the first problem becomes an InputError."""
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            raise self._complaint(error, model) from None

    def _complaint(self, error: ValidationError, model: type[BaseModel]) -> InputError:
        found = [
            (self._written(item["loc"], missing=item["type"] == "missing"), item)
            for item in error.errors()
        ]
        # Each shape that a field may have complains; the one that looked deeper knows better.
        places = {at for at, _ in found}
        shallow = {at for at in places for deeper in places if at == deeper[: len(at)] != deeper}
        problems = [one for one in found if one[0] not in shallow]
        at, first = min(problems, key=lambda one: one[1]["type"] == "missing")
        others = len(places - shallow) - 1
        more = f" ({others} more after this one)" if others else ""
        if first["type"] == "extra_forbidden":
            known = _fields(model, at[:-1])
            hint = suggestion(str(at[-1]), known) or f"Known: {', '.join(known)}."
            return InputError(f"unknown field. {hint}{more}", where=self.where(at))
        if first["type"] == "missing":
            return InputError(f"missing field.{more}", where=self.where(at))
        text = said(first)
        text += "" if text.endswith((".", "?")) else "."
        advice = _advice(first)
        return InputError(f"{text}{f' {advice}' if advice else ''}{more}", where=self.where(at))


def said(problem: ErrorDetails) -> str:
    """pydantic's message in a recipe's words, with what was found."""
    if problem["type"] == "model_type":
        text = "should be a mapping of fields"
    else:
        text = str(problem["msg"]).removeprefix("Value error, ")
        text = re.sub("^(Input|String|List|Value|Keys) should", "should", text)
        text = text.replace(" after validation", "")
    given = problem["input"]
    if isinstance(given, dict | list) or problem["type"] == "value_error":
        return text
    shown = repr(given)
    return f"{text} (found {shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '...'})"


def _advice(problem: ErrorDetails) -> str:
    given = problem["input"]
    if problem["type"] == "literal_error" and isinstance(given, str):
        expected = str(problem["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
        return suggestion(given, expected.split(", "))
    if problem["type"] == "string_type" and isinstance(given, int | float):
        return "Put it in quotes."
    return ""


def read_text(path: Path) -> str:
    """A small UTF-8 text file, or an InputError that says what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES:,} bytes; not a recipe.", where=str(path))
        return data.decode("utf-8").replace("\r\n", "\n")
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


def suggestion(given: str, known: Iterable[str]) -> str:
    """`Did you mean "..."?`, or nothing where nothing is close."""
    close = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=0.5)
    return f'Did you mean "{close[0]}"?' if close and close[0] != given else ""


def _fields(model: type[BaseModel], at: Location) -> list[str]:
    """Field names of the model found at `at` below `model`."""
    current: type[BaseModel] | None = model
    for part in at:
        if isinstance(part, int) or current is None:
            continue
        info = current.model_fields.get(str(part))
        current = _model_in(info.annotation) if info else current
    fields = current.model_fields if current else {}
    return sorted(info.alias or name for name, info in fields.items())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found:
            return found
    return None
