"""gguf show, verify and quality: look into GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from orchestrator.commands.output import print_findings

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
    from orchestrator.gguf.verify import verify as check

    found = check(file, source=source, target=target)
    raise typer.Exit(0 if print_findings(found, as_json=as_json) else 1)


@app.command()
def quality(
    reference: Path = typer.Argument(help="The GGUF to compare with, for instance bf16."),
    files: list[Path] = typer.Argument(help="Quantised GGUF files of the same target."),
    text: Path = typer.Option(..., "--text", help="A text file to predict."),
    tokens: int = typer.Option(512, "--tokens", min=2, help="How much of the text is used."),
    threads: int | None = typer.Option(None, "--threads", min=1, help="CPU threads."),
    device: Literal["cpu", "cuda"] | None = typer.Option(
        None, "--device", help="cpu or cuda.", show_default="cuda where a GPU is"
    ),
    as_json: bool = JSON,
) -> None:
    """Perplexity, top-1 agreement and divergence of quantised targets, through llama-server."""
    import json
    import sys
    import tempfile
    from dataclasses import asdict

    from orchestrator.environments.engines import default_device, resolve
    from orchestrator.gguf.quality import quality as measure
    from orchestrator.inputs.document import read_text

    def watch(name: str, done: int, total: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == total else "\r"
            print(f"{name}: {done} of {total} positions", end=end, file=sys.stderr, flush=True)

    engine = resolve("llamacpp", device=device or default_device())
    with tempfile.TemporaryDirectory(prefix="museorch-quality-") as folder:
        found = list(
            measure(
                reference,
                files,
                read_text(text),
                engine=engine,
                folder=Path(folder),
                tokens=tokens,
                threads=threads,
                watch=watch,
            )
        )
    if as_json:
        rows = [{**asdict(row), "file": str(row.file)} for row in found]
        print(json.dumps(rows, indent=1))
        return
    print(f"{'file':<40} {'perplexity':>10} {'top-1':>7} {'divergence':>10}")
    for row in found:
        print(
            f"{row.file.name:<40} {row.perplexity:>10.3f} {row.top1_agreement:>7.1%} "
            f"{row.divergence:>10.4f}"
        )
    print(f"{found[0].positions} positions; top-1 and divergence (nats) are against the first.")
