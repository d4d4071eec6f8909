"""The shipped recipes, and the JSON schema they follow."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.inputs.models import RECIPES
from orchestrator.inputs.recipe import Recipe, load_recipe

SCHEMA_FILE = RECIPES / "recipe.schema.json"
NOT_RECIPES = frozenset({"models", "claims"})


def shipped_paths() -> list[Path]:
    """Every recipe of the package."""
    found = sorted(RECIPES.glob("*/*.yaml"))
    return [path for path in found if path.parent.name not in NOT_RECIPES]


def shipped() -> list[dict[str, str]]:
    """Name and description of every shipped recipe."""
    rows = []
    for path in shipped_paths():
        recipe, _ = load_recipe(path)
        name = str(path.relative_to(RECIPES).with_suffix(""))
        rows.append({"name": name, "description": recipe.description, "path": str(path)})
    return rows


def recipe_schema() -> str:
    """JSON schema of a recipe, as committed in recipes/recipe.schema.json."""
    return json.dumps(Recipe.model_json_schema(by_alias=True), indent=1) + "\n"
