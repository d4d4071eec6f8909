"""lint: look at a drafter before it is served."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from orchestrator.commands.output import print_findings


def lint(
    drafter: Path = typer.Argument(help="A folder of Hugging Face files, or a GGUF file."),
    target: Path = typer.Option(..., "--target", help="The target, in either format."),
    method: Literal["dflash", "dspark"] | None = typer.Option(
        None, "--method", help="How it is to be run.", show_default="what its tensors say"
    ),
    draft_tokens: int | None = typer.Option(None, "--draft-tokens", min=1, help="K."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check a drafter against its target by their headers. Exit status 1 where it has an error."""
    from orchestrator.planning.lint import lint as check

    found = check(drafter, target, method=method, draft_tokens=draft_tokens)
    raise typer.Exit(0 if print_findings(found, as_json=as_json) else 1)
