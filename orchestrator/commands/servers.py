"""ps, status, logs, down, restart and top."""

from __future__ import annotations

import os

import typer

from orchestrator.commands.output import print_json
from orchestrator.commands.up import IN_PLACE, JSON, KEY, bring_up

NAME = typer.Argument(None, help="A server. Not needed where there is only one.")


def ps(as_json: bool = JSON) -> None:
    """List the servers that `up` started."""
    from orchestrator.up.live import public
    from orchestrator.up.show import ps_text
    from orchestrator.up.state import everyone

    states = everyone()
    if as_json:
        print_json({"schema": 1, "servers": [public(state) for state in states]})
    else:
        print(ps_text(states))


def status(
    name: str | None = NAME,
    interval: float = typer.Option(1.0, "--interval", help="Seconds to look.", min=0.1, max=60),
    as_json: bool = JSON,
) -> None:
    """Throughput and acceptance of a server now. Exit status 1 where it does not run."""
    from orchestrator.up.live import look, public
    from orchestrator.up.show import status_text
    from orchestrator.up.state import only

    state = only(name)
    (live,) = look([state], os.environ.get(KEY), interval)
    if as_json:
        print_json({"schema": 1, **public(state, live)})
    else:
        print(status_text(state, live))
    if live.standing != "running":
        raise typer.Exit(1)


def logs(
    name: str | None = NAME,
    follow: bool = typer.Option(False, "--follow", "-f", help="Wait for more."),
    lines: int = typer.Option(100, "--lines", "-n", help="From the end.", min=0),
) -> None:
    """Print a server's log, also that of a start that failed."""
    from orchestrator.up.logs import log_of, tail

    log, running = log_of(name)
    try:
        for line in tail(log, lines, running if follow else lambda: False):
            print(line, flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def down(
    name: str | None = NAME,
    everything: bool = typer.Option(False, "--all", help="End every server."),
) -> None:
    """End a server and remove what is kept of it."""
    from backends.errors import InputError
    from orchestrator.up import state as book
    from orchestrator.up import stop

    if everything and name is not None:
        raise InputError(f"every server, or {name} alone?", where="--all", fix="Leave one out.")
    for state in book.everyone() if everything else [book.only(name)]:
        ended = stop.down(state)
        print(f"{state.name}: {'ended' if ended else 'had ended; what was left is removed'}")


def restart(name: str | None = NAME, patch_in_place: bool = IN_PLACE) -> None:
    """End a server and start it again as it was asked for, on the same port, detached."""
    from dataclasses import replace

    from backends.errors import InputError
    from orchestrator.up import state as book
    from orchestrator.up import stop
    from orchestrator.up.choose import choose
    from orchestrator.up.start import check_access

    state = book.only(name)
    key = os.environ.get(KEY) if state.needs_key else None
    if state.needs_key and not key:
        raise InputError("its API key is not kept.", where=state.name, fix=f"Set {KEY}.")
    # What it was made of may be gone; then it had better go on. Its own memory comes free.
    choice = choose(state.options)
    choice = replace(choice, budget=replace(choice.budget, space=None))
    check_access(state.options, choice, key)
    if (problem := choice.problem()) is not None:
        raise problem
    stop.down(state)
    choice = choose(state.options)
    bring_up(choice, state.options, state.name, key, True, patch_in_place, False)


def top() -> None:
    """Watch all servers: throughput, acceptance by position, queue, GPUs. Ctrl-C ends it."""
    from rich.console import Console

    from orchestrator.up.top import watch

    try:
        watch(Console(), os.environ.get(KEY))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def register(app: typer.Typer) -> None:
    """Add this module's commands to the top level."""
    for command in (ps, status, logs, down, restart, top):
        app.command()(command)
