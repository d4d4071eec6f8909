"""gguf show and verify: look into a GGUF file."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="What is in a GGUF file, and whether it is right.", no_args_is_help=True)

FILE = typer.Argument(help="A GGUF file.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command()
def show(file: Path = FILE, as_json: bool = JSON) -> None:
    """Architecture, drafter family, K, layers, token ids, quantisation, bytes read per token."""
    import json

    from orchestrator.gguf.contents import read
    from orchestrator.gguf.show import lines, summary

    found = summary(read(file))
    print(json.dumps(found, indent=1) if as_json else "\n".join(lines(found)))


@app.command()
def verify(
    file: Path = FILE,
    source: Path | None = typer.Option(
        None, "--source", help="The checkpoint it was made from: metadata and sampled tensors."
    ),
    target: Path | None = typer.Option(
        None, "--target", help="The target a drafter is meant for, in either format."
    ),
    as_json: bool = JSON,
) -> None:
    """Check a GGUF file. Exit status 1 where it has an error."""
    import json
    from dataclasses import asdict

    from orchestrator.gguf.verify import verify as check

    found = check(file, source=source, target=target)
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
