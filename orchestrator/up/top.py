"""The live view: every server, drawn anew each second."""

from __future__ import annotations

import shutil
import subprocess
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.table import Table
from rich.text import Text

from orchestrator.up import state as book
from orchestrator.up.live import Live, Reading, between, read
from orchestrator.up.show import UNKNOWN, bars
from orchestrator.up.state import State

PERIOD_S = 1.0
GPU_FIELDS = "index,name,power.draw,memory.used,memory.total,utilization.gpu"


def watch(console: Console, key: str | None) -> None:
    """Until Ctrl-C. Where the console is no terminal, or one that cannot redraw, one picture."""
    before = _readings(key)
    if not console.is_terminal or console.is_dumb_terminal:
        time.sleep(PERIOD_S)
        console.print(picture(before, _readings(key)))
        return
    with Screen(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            time.sleep(PERIOD_S)
            now = _readings(key)
            screen.update(picture(before, now), refresh=True)
            before = now


Readings = dict[str, tuple[State, Reading | str | None]]


def _readings(key: str | None) -> Readings:
    return {
        state.name: (state, read(state, key) if state.standing == "running" else None)
        for state in book.everyone()
    }


def picture(before: Readings, now: Readings) -> RenderableType:
    parts: list[RenderableType] = []
    for name, (state, reading) in now.items():
        earlier = before[name][1] if name in before else None
        parts += _server(state, between(state, earlier, reading))
    if not parts:
        parts.append(Text("No server is up. Start one: museorch up"))
    if (cards := _gpus()) is not None:
        parts.append(cards)
    return Group(*parts)


def _server(state: State, live: Live) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    table.add_row(state.name, f"{live.standing}  {state.url}/v1")
    if live.reason is not None:
        table.add_row("", Text(live.reason))
        return [table, Text("")]
    length = UNKNOWN if live.acceptance_length is None else f"{live.acceptance_length:.2f}"
    now = live.recent_acceptance_length
    recent = f", {now:.2f} now" if now is not None else ""
    rate = UNKNOWN if live.output_tok_s is None else f"{live.output_tok_s:.1f}"
    table.add_row("output", f"{rate} tok/s")
    table.add_row("queue", f"{_count(live.running)} running, {_count(live.waiting)} waiting")
    if state.speculation != "none":
        table.add_row(
            "acceptance", f"{length} since start{recent}  ({state.speculation}, K {_k(state)})"
        )
    return [table, Text("\n".join(bars(live)), style="green"), Text("")]


def _k(state: State) -> str:
    return UNKNOWN if state.draft_tokens is None else str(state.draft_tokens)


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _gpus() -> Table | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    argv = [tool, f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    table = Table("GPU", "name", "power", "used", "of", "busy", box=None, pad_edge=False)
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(table.columns):
            table.add_row(*cells)
    return table
