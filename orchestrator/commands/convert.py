"""convert: checkpoints to GGUF files."""

from __future__ import annotations

from pathlib import Path

import typer


def convert(
    target: str = typer.Argument(
        help="The target: a folder, OWNER/NAME of the hub, or a name museorch knows."
    ),
    drafter: list[str] = typer.Option(
        [], "--drafter", help="A drafter likewise; of a known target also dflash or dspark."
    ),
    quant: str = typer.Option(
        "BF16,Q8_0,Q6_K,Q4_K_M", "--quant", help="Quantisations, parted by commas."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="The folder for the files. Default: where shipped recipes look."
    ),
    threads: int = typer.Option(1, "--threads", min=1, help="CPU threads of the quantiser."),
    as_json: bool = typer.Option(False, "--json", help="Print the manifests as JSON."),
) -> None:
    """Convert a target and its drafters to GGUF and quantise them; finished files are kept."""
    import json
    import sys
    import time

    from orchestrator.convert.checkpoints import checkpoints
    from orchestrator.convert.flow import convert as run
    from orchestrator.convert.flow import quantisations
    from orchestrator.convert.tools import tools
    from orchestrator.inputs.models import converted_folder

    wanted = quantisations(quant)
    found = checkpoints(target, drafter)
    moving = sys.stderr.isatty()
    began: dict[str, float] = {}

    def watch(what: str, done: int, total: int) -> None:
        if what not in began:
            began[what] = time.monotonic()
            if not moving:
                print(what, file=sys.stderr, flush=True)
        if moving:
            share = min(done / total, 1.0) if total else 0.0
            seconds = time.monotonic() - began[what]
            line = f"{what}: {share:.0%}, {done / 1e9:.2f} GB, {seconds:.0f} s"
            print(f"\x1b[2K{line}", end="\r", file=sys.stderr, flush=True)

    made = []
    try:
        for item in run(
            found, wanted, out or converted_folder(), tools(), threads=threads, watch=watch
        ):
            made.append({"path": str(item.path), "kept": item.kept, **item.manifest})
            if not as_json:
                if moving:
                    print("\x1b[2K", end="\r", file=sys.stderr, flush=True)
                facts = item.manifest
                how = "was there" if item.kept else f"{facts['made']['seconds']:.1f} s"
                print(f"{item.path}: {facts['bytes']:,} bytes, {how}", flush=True)
    except KeyboardInterrupt:
        print("Stopped. What is finished is kept.", file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        if moving:
            print("\x1b[2K", end="\r", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(made, indent=1))
