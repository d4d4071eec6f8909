"""engines list, install, path, add and remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import typer

app = typer.Typer(
    help="Engine environments that museorch owns or was told of.", no_args_is_help=True
)

DEVICE = typer.Option(None, "--device", help="cpu or cuda.", show_default="cuda where a GPU is")
VERSION = typer.Option(
    None, "--version", help="The engine's version.", show_default="newest that fits"
)


@app.command("list")
def list_engines(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """The engines that can be used, and those that cannot any more."""
    import json

    from orchestrator.environments import engines

    found = engines.installed()
    names = {engine.name for engine in found}
    broken: dict[str, str | None] = {**engines.own_problems()}
    broken |= {n: engines.added_problem(n) for n in engines.added_names() if n not in names}
    if as_json:
        rows = [
            {
                "name": engine.name,
                "backend": engine.backend,
                "version": engine.version,
                "device": engine.device,
                "owned": engine.owned,
                "executable": str(engine.executable),
                "packages": str(engine.packages) if engine.packages else None,
            }
            for engine in found
        ]
        problems = [{"name": name, "problem": problem} for name, problem in broken.items()]
        print(json.dumps({"engines": rows, "unusable": problems}, indent=1))
        return
    for engine in found:
        whose = "museorch's" if engine.owned else "yours"
        print(f"{engine.name}  {engine.backend} {engine.version} ({engine.device}), {whose}")
        print(f"    {engine.executable}")
    for name, problem in broken.items():
        print(f"{name}  cannot be used: {problem}")
    if not found and not broken:
        print("No engine is installed. Run: museorch engines install llamacpp vllm")


@app.command()
def install(
    names: list[str] = typer.Argument(help="llamacpp, vllm, sglang."),
    version: str | None = VERSION,
    device: Literal["cpu", "cuda"] | None = DEVICE,
    force: bool = typer.Option(False, "--force", help="Remove what is there and start again."),
) -> None:
    """Make an environment for each engine named, unless it is there."""
    from backends.errors import InputError
    from orchestrator.environments import engines

    for name in names:
        _check_known(name, engines.ENVIRONMENTS)
    if version is not None and len(set(names)) > 1:
        raise InputError("--version fits one engine.", fix="Install them one by one.")
    chosen = device or engines.default_device()
    for name in dict.fromkeys(names):
        wanted = version or engines.default_version(name, chosen)
        with progress_line(f"{name} {wanted} ({chosen})") as report:
            engine = engines.install(name, wanted, chosen, report, force=force)
        print(f"{engine.name}: {engine.executable}")


@app.command()
def path(
    name: str = typer.Argument(help="A backend, or a name from `engines list`."),
    version: str | None = VERSION,
    device: Literal["cpu", "cuda"] | None = DEVICE,
) -> None:
    """Print the interpreter or server binary of an engine."""
    from orchestrator.environments import engines

    by_name = {engine.name: engine for engine in engines.installed()}
    if name in by_name and name not in engines.ENVIRONMENTS:
        print(by_name[name].executable)
        return
    _check_known(name, [*engines.ENVIRONMENTS, *by_name])
    chosen = device or engines.default_device()
    print(engines.resolve(name, version=version, device=chosen).executable)


@app.command()
def add(
    name: str = typer.Argument(help="What to call it."),
    python: str | None = typer.Option(None, "--python", help="An interpreter that has the engine."),
    server: str | None = typer.Option(None, "--server", help="A llama-server."),
) -> None:
    """Tell museorch of an engine you already have. It is used, never changed."""
    from backends.errors import InputError
    from orchestrator.environments import engines

    executable = python or server
    if executable is None or (python and server):
        raise InputError("give one of --python and --server.", where="engines add")
    engine = engines.add(name, executable, server=server is not None)
    print(f"{name}: {engine.backend} {engine.version} ({engine.device}), {engine.executable}")


@app.command()
def remove(name: str = typer.Argument(help="A name from `engines list`.")) -> None:
    """Delete an environment of museorch's, or forget an added engine."""
    from orchestrator.environments import engines

    added = engines.added_names()
    own = [engine.name for engine in engines.installed()]
    _check_known(name, [*added, *own, *engines.own_problems()])
    with progress_line(name) as report:
        engines.remove(name, report)
    print(f"forgot {name}" if name in added else f"removed {name}")


def _check_known(name: str, known: Iterable[str]) -> None:
    from difflib import get_close_matches

    from backends.errors import InputError

    names = list(known)
    if name in names:
        return
    close = get_close_matches(name, names, n=1, cutoff=0.3)
    hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(names) or 'none'}."
    raise InputError(f"there is no engine {name!r}.", fix=hint)


@contextmanager
def progress_line(label: str) -> Iterator[Callable[[str], None]]:
    """A line that is kept up to date on a terminal, one line a step elsewhere; to stderr."""
    import time

    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    began = time.monotonic()
    if not console.is_terminal:

        def line(text: str) -> None:
            console.file.write(f"{label} {text} (at {time.monotonic() - began:.0f} s)\n")
            console.file.flush()

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda text: progress.update(task, description=f"{label} {text}")
