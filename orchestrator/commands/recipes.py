"""recipes list, show and schema."""

from __future__ import annotations

import typer

app = typer.Typer(help="Shipped recipes and the recipe format.", no_args_is_help=True)


@app.command("list")
def list_recipes(
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """The recipes that come with museorch."""
    import json

    from orchestrator.inputs.library import shipped

    rows = shipped()
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    wide = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{wide}}  {row['description']}")


@app.command()
def show(recipe: str = typer.Argument(help="A recipe's name or file.")) -> None:
    """Print a recipe after checking it."""
    from orchestrator.inputs.document import read_text
    from orchestrator.inputs.recipe import load_recipe
    from orchestrator.job import find_recipe

    path = find_recipe(recipe)
    load_recipe(path)
    print(read_text(path), end="")


@app.command()
def schema() -> None:
    """Print the JSON schema of recipes."""
    from orchestrator.inputs.library import recipe_schema

    print(recipe_schema(), end="")
