"""YAML in which a bare word means what it says, with the line each field stands on."""

from __future__ import annotations

import re
from typing import Any

import yaml

from backends.errors import InputError

Location = tuple[str | int, ...]
MAX_PLACES = 100_000
"""Fields and values of a file, repeated ones counted each time: a few aliases can name billions."""

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_EXPONENT = "[eE][-+]?[0-9]+"
_DIGITS = "-+.0123456789"


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `2026-99-99` as a broken date."""


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", list(_DIGITS)),
    (
        "float",
        rf"[-+]?(([0-9]+\.[0-9]*|\.[0-9]+)({_EXPONENT})?|[0-9]+{_EXPONENT}|\.(inf|Inf|INF))"
        r"|\.(nan|NaN|NAN)",
        list(_DIGITS),
    ),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"(?:{_pattern})$"), _first)
_PLAIN = [f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")]
_Loader.yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (*_PLAIN, None)}


def load(text: str, name: str) -> tuple[Any, dict[Location, int]]:
    """The data, and the line of each field and item. `name` is the file's, for complaints."""
    lines: dict[Location, int] = {}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, lines
        _index(node, (), frozenset(), lines, name)
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        line = _line(error, text)
        raise InputError(
            f"not valid YAML: {_problem(error)}",
            where=name if line is None else f"{name}:{line}",
            fix="Check indentation, colons and quotes there.",
        ) from None
    except (ValueError, LookupError) as error:
        # Of a value that is not what its tag says, or a number of thousands of digits.
        raise InputError(f"not valid YAML: {error}.", where=name) from None
    except RecursionError:
        raise InputError("YAML nested too deeply.", where=name) from None


def _index(
    node: yaml.Node, at: Location, active: frozenset[int], lines: dict[Location, int], name: str
) -> None:
    if id(node) in active:
        raise InputError("YAML aliases form a loop.", where=name)
    if len(lines) > MAX_PLACES:
        raise InputError(f"holds more than {MAX_PLACES:,} fields and values.", where=name)
    lines.setdefault(at, node.start_mark.line + 1)
    active |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag not in (f"{_TAG}str", _MERGE):
                found = key.value if isinstance(key, yaml.ScalarNode) else f"a {key.id}"
                raise InputError(
                    f"a field's name is a word, not {found or 'nothing'}.",
                    where=f"{name}:{line}",
                    fix="Put it in quotes if it is meant as one.",
                )
            if key.value in seen:
                raise InputError(f'field "{key.value}" is given twice.', where=f"{name}:{line}")
            seen.add(key.value)
            lines[(*at, key.value)] = line
            _index(value, (*at, key.value), active, lines, name)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _index(item, (*at, position), active, lines, name)


def _line(error: yaml.YAMLError, text: str) -> int | None:
    if isinstance(error, yaml.reader.ReaderError):
        return text.count("\n", 0, error.position) + 1
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark is not None else None


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"the character {chr(error.character)!a}."
    problem = str(getattr(error, "problem", None) or str(error).splitlines()[0])
    begun, mark = getattr(error, "context_mark", None), getattr(error, "problem_mark", None)
    if begun is not None and mark is not None and begun.line < mark.line:
        problem += f", in what begins on line {begun.line + 1}"
    return f"{problem.removeprefix('but ')}."
