"""lint: look at a drafter before it is served."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer


def lint(
    drafter: Path = typer.Argument(help="A folder of Hugging Face files, or a GGUF file."),
    target: Path = typer.Option(..., "--target", help="The target, in either format."),
    method: Literal["dflash", "dspark"] | None = typer.Option(
        None, "--method", help="How it is to be run. [default: what its tensors say]"
    ),
    draft_tokens: int | None = typer.Option(None, "--draft-tokens", min=1, help="K."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check a drafter against its target by their headers. Exit status 1 where it has an error."""
    import json
    from dataclasses import asdict

    from orchestrator.lint import lint as check

    found = check(drafter, target, method=method, draft_tokens=draft_tokens)
    if as_json:
        print(json.dumps([asdict(finding) for finding in found], indent=1))
    else:
        for finding in found:
            print(f"{finding.level}: {finding.text} [{finding.code}]")
            if finding.fix:
                print(f"    {finding.fix}")
        if not found:
            print("Nothing found.")
    raise typer.Exit(1 if any(finding.level == "error" for finding in found) else 0)
