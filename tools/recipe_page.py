"""docs/recipe.md, from the schema of recipes: every field with what it takes and what it means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.inputs.recipe import Recipe

Schema = Mapping[str, Any]
INTRODUCTION = """# Recipe

Made from `orchestrator/inputs/recipe.py` by `python -m tools.docs`.

A recipe is a YAML file that says what is compared. Paths in it start from its own folder. A field \
that is not known, or a value that does not fit, is an error with file, line and field; the YAML \
words `no`, `on` or `010` mean what they say. `museorch plan RECIPE` shows what a recipe would \
start, `museorch recipes list` names the ones that come with museorch, and `museorch recipes \
schema` prints the JSON schema, for an editor that completes fields.

Where a field takes one value or a list, each value of a list makes arms, or phases, of its own.
"""


def recipe_page() -> str:
    schema = Recipe.model_json_schema(by_alias=True)
    parts = schema["$defs"]
    lines = [INTRODUCTION, "## The file", "", *_table(schema)]
    for name, part in _in_order(schema, parts):
        lines += [
            "",
            f"## {_heading(name)}",
            "",
            part["description"],
            "",
            *_table(part),
        ]
    return "\n".join(lines) + "\n"


def _in_order(schema: Schema, parts: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """The parts in the order in which fields first lead to them."""
    seen: list[str] = []

    def visit(part: Schema) -> None:
        for field in part["properties"].values():
            for name in _references(field):
                if name not in seen:
                    seen.append(name)
                    visit(parts[name])

    visit(schema)
    for name in seen:
        yield name, parts[name]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _table(part: Schema) -> Iterator[str]:
    yield "| field | takes | left out | what it is |"
    yield "|---|---|---|---|"
    required = part.get("required", [])
    for name, field in part["properties"].items():
        default = "must be given" if name in required else _default(field)
        yield f"| `{name}` | {_takes(field)} | {default} | {field.get('description', '')} |"


def _takes(field: Schema) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{_heading(name).lower()}](#{_heading(name).lower().replace(' ', '-')})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        kinds = dict.fromkeys(_takes(kind) for kind in field["anyOf"] if kind != {"type": "null"})
        single = next(iter(kinds))
        return f"{single}; or a list" if f"list: {single}" in kinds else " or ".join(kinds)
    if field["type"] == "array":
        return f"list: {_takes(field['items'])}"
    if field["type"] == "object":
        return f"for each name: {_takes(field['additionalProperties'])}"
    return {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "`true`, `false`",
    }[field["type"]] + _limits(field)


def _limits(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    if above is not None:
        return f" above {above:,}" + (f", up to {high:,}" if high is not None else "")
    if low is not None and high is not None:
        return f", {low:,} to {high:,}"
    return f", {low:,} or more" if low is not None else ""


def _default(field: Schema) -> str:
    value = field.get("default")
    if value in (None, [None], "", [], {}) or "$ref" in field:
        return "—"
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _heading(name: str) -> str:
    return {"ArmSpec": "Arm", "EngineChoice": "Engine", "RandomPrompts": "Random prompts"}.get(
        name, name
    )
