"""up: serve a model with speculation on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Literal

import typer

from backends.base import BackendName
from orchestrator.commands.output import print_json

if TYPE_CHECKING:
    from orchestrator.up.choice import Choice, Options
    from orchestrator.up.start import Up


KEY = "MUSEORCH_API_KEY"


JSON = typer.Option(False, "--json", help="Print JSON.")


IN_PLACE = typer.Option(
    False, "--patch-in-place", help="Also patch an engine that museorch does not own."
)


def up(
    recipe: str | None = typer.Argument(None, help="Serve an arm of this recipe."),
    arm: str | None = typer.Option(None, "--arm", help="Which arm of the recipe."),
    model: str | None = typer.Option(
        None,
        "--model",
        help="muse-glimmer-30b or tiny-muse.",
        show_default="by whether a GPU is here",
    ),
    backend: BackendName | None = typer.Option(
        None, "--backend", help="The engine.", show_default="the first that fits"
    ),
    speculation: Literal["dflash", "dspark", "none"] | None = typer.Option(
        None, "--speculation", help="The drafter, or none.", show_default="dflash"
    ),
    quant: str | None = typer.Option(
        None, "--quant", help="The target's quantisation.", show_default="the first that fits"
    ),
    draft_tokens: int | None = typer.Option(
        None,
        "--draft-tokens",
        help="K.",
        show_default="the most the drafter was trained for",
        min=1,
    ),
    context_length: int | None = typer.Option(
        None, "--context-length", help="Tokens a request.", show_default="16384 at most", min=16
    ),
    slots: int | None = typer.Option(
        None, "--slots", help="Requests at a time.", show_default="4", min=1, max=1024
    ),
    device: Literal["cpu", "cuda"] | None = typer.Option(
        None, "--device", help="What it runs on.", show_default="cuda where a GPU is"
    ),
    threads: int | None = typer.Option(None, "--threads", help="CPU threads.", min=1),
    host: str = typer.Option("127.0.0.1", "--host", help="Others than loopback need an API key."),
    port: int | None = typer.Option(
        None, "--port", help="Where it listens.", show_default="a free one from 8000 on"
    ),
    api_key: str | None = typer.Option(
        None, "--api-key", envvar=KEY, show_envvar=True, help="What requests must bring."
    ),
    name: str | None = typer.Option(
        None,
        "--name",
        help="What ps, logs and down call it.",
        show_default="model, engine and drafter",
    ),
    detach: bool = typer.Option(False, "--detach", "-d", help="Leave it running and return."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Fetch missing weights unasked."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would be started."),
    as_json: bool = JSON,
    patch_in_place: bool = IN_PLACE,
) -> None:
    """Serve Muse Glimmer with a drafter, as an OpenAI-compatible endpoint on this machine.

    Without --detach it stays until Ctrl-C.
    """
    from orchestrator.inputs.hub import offline
    from orchestrator.up.choice import Options
    from orchestrator.up.choose import choose

    _keep_key_out_of_argv()
    options = Options(
        recipe=_lasting(recipe),
        arm=arm,
        model=_lasting(model),
        device=device,
        backend=backend,
        speculation=speculation,
        quant=quant,
        draft_tokens=draft_tokens,
        context_length=context_length,
        slots=slots,
        threads=threads,
        host=host,
        port=port,
    )
    choice = choose(options)
    if dry_run:
        _dry_run(choice, options, api_key, as_json)
        return
    if choice.fetchable() and not offline():
        _fetch(choice, yes)
        choice = choose(options)
    bring_up(
        choice,
        options,
        choice.name if name is None else name,
        api_key,
        detach,
        patch_in_place,
        as_json,
    )


def _fetch(choice: Choice, yes: bool) -> None:
    from orchestrator.commands.engines import progress_line
    from orchestrator.commands.run import ended_by_signals
    from orchestrator.up.fetch import fetch

    try:
        with ended_by_signals():
            fetch(choice, yes=yes, line=progress_line)
    except KeyboardInterrupt:
        print(f"{choice.name}: stopped; files that came whole are kept", file=sys.stderr)
        raise typer.Exit(130) from None


def _lasting(name: str | None) -> str | None:
    """A file's whole path, so that a restart finds it from anywhere; a shipped name as it is."""
    return os.path.abspath(name) if name is not None and os.path.isfile(name) else name


def _dry_run(choice: Choice, options: Options, key: str | None, as_json: bool) -> None:
    from dataclasses import asdict

    from orchestrator.planning.plan import plan_json
    from orchestrator.up.show import dry_text
    from orchestrator.up.start import check_access

    check_access(options, choice, key)
    if as_json:
        budget = {**asdict(choice.budget), "needed": choice.budget.needed}
        print_json({"schema": 1, "plan": plan_json(choice.planned), "memory": budget})
    else:
        print(dry_text(choice))
    if (problem := choice.problem()) is not None:
        raise problem


def bring_up(
    choice: Choice,
    options: Options,
    name: str,
    key: str | None,
    detach: bool,
    patch_in_place: bool,
    as_json: bool,
) -> None:
    from orchestrator.commands.engines import progress_line
    from orchestrator.commands.run import ended_by_signals
    from orchestrator.planning.plan import MISSING
    from orchestrator.up.live import public
    from orchestrator.up.show import memory_text, up_text
    from orchestrator.up.start import start
    from orchestrator.up.state import check_name

    check_name(name)
    print(f"{name}: memory\n{memory_text(choice.budget)}", file=sys.stderr)
    for finding in choice.planned.plan.findings:
        if finding.level == "warning" and finding.code not in MISSING:
            print(f"warning: {finding.text} {finding.fix or ''}".rstrip(), file=sys.stderr)
    ready = False
    try:
        with ended_by_signals(), ExitStack() as stack:
            with progress_line(name) as report:
                running = stack.enter_context(
                    start(
                        choice,
                        options,
                        name=name,
                        key=key,
                        detach=detach,
                        patch_in_place=patch_in_place,
                        on_progress=report if sys.stderr.isatty() else _seldom(report),
                    )
                )
            ready = True
            if as_json:
                print_json({"schema": 1, **public(running.state)})
            else:
                print(up_text(running), flush=True)
            if not detach:
                _hold(running)
    except KeyboardInterrupt:
        print(f"{name}: stopped {'' if ready else 'before it was ready'}".rstrip(), file=sys.stderr)
        if not ready or detach:
            raise typer.Exit(130) from None


def _seldom(report: Callable[[str], None]) -> Callable[[str], None]:
    """In a file, one line of a long wait in ten is enough."""
    waits = count()

    def told(text: str) -> None:
        if not text.startswith("waiting for") or next(waits) % 10 == 9:
            report(text)

    return told


def _hold(running: Up) -> None:
    """Until Ctrl-C or `down`, which are clean ends. EngineError when the engine ends by itself."""
    from orchestrator.up.state import stopping

    state, server = running.state, running.server
    try:
        while not server.ended(wait_s=1.0):
            pass
    except KeyboardInterrupt:
        print(f"{state.name}: stopping", file=sys.stderr)
        return
    if not stopping(state.name):
        raise server.failure(f"the engine ended: {server.exit_reason()}")
    print(f"{state.name}: stopped by museorch down", file=sys.stderr)


def _keep_key_out_of_argv() -> None:
    """Start this program again with the key in its environment, where `ps` does not show it."""
    from backends.errors import InputError

    words = sys.orig_argv
    kept: list[str] = []
    key: str | None = None
    rest = iter(words)
    for word in rest:
        if word == "--api-key":
            key = next(rest, None)
        elif word.startswith("--api-key="):
            key = word.removeprefix("--api-key=")
        else:
            kept.append(word)
    if key == "":
        raise InputError(
            "the API key is empty.", where="--api-key", fix="Is the variable set that holds it?"
        )
    if key is not None:
        os.execve(sys.executable, [sys.executable, *kept[1:]], {**os.environ, KEY: key})
