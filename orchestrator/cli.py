"""The command line, and the one place where expected errors become a message and a status."""

from __future__ import annotations

import errno
import sys
from io import TextIOWrapper

import typer

from backends.errors import MuseorchError
from orchestrator.commands import (
    audit,
    claims,
    convert,
    diagnose,
    doctor,
    engines,
    gguf,
    lint,
    patch,
    recipes,
    report,
    run,
    servers,
    tune,
    up,
)

REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG),
)
"""What a file or a machine, not museorch, is to be mended for."""

app = typer.Typer(
    name="museorch",
    help="Muse Glimmer with a drafter on vLLM, SGLang and llama.cpp: launch, measure, compare.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
run.register(app)
report.register(app)
app.command()(up.up)
servers.register(app)
app.add_typer(recipes.app, name="recipes")
app.add_typer(engines.app, name="engines")
app.add_typer(patch.app, name="patch")
app.command()(lint.lint)
app.command()(diagnose.diagnose)
app.command()(doctor.doctor)
app.add_typer(claims.app, name="claims")
app.command()(tune.tune)
app.command()(convert.convert)
app.add_typer(gguf.app, name="gguf")
app.command()(audit.audit)

PANELS = {
    "Measure": "plan compare bench report tune audit claims recipes",
    "Serve": "up ps status logs top restart down",
    "Engines and files": "engines patch convert gguf lint",
    "When something is wrong": "doctor diagnose",
}


def _grouped() -> None:
    """Name the part of --help in which each command stands."""
    panels = {name: panel for panel, names in PANELS.items() for name in names.split()}
    for command in app.registered_commands:
        assert command.callback is not None
        command.rich_help_panel = panels[command.name or command.callback.__name__]
    for group in app.registered_groups:
        group.rich_help_panel = panels[str(group.name)]


_grouped()


def _show_version(wanted: bool) -> None:
    if wanted:
        from orchestrator.measuring.environment import museorch_version

        print(museorch_version())
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    del version


def main() -> None:
    """Run the command line. Expected failures are one message on stderr, never a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # bars and dashes, in a locale that has none
    try:
        app()
    except MuseorchError as error:
        from orchestrator.report.safe import plain

        print(f"museorch: {plain(error.message)}", file=sys.stderr)
        sys.exit(error.exit_status)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(f"museorch: {place}{error.strerror}.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
