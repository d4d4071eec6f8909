"""End a server, whoever started it, and remove what is kept of it."""

from __future__ import annotations

import contextlib

from backends.errors import EngineError
from orchestrator.serving import guard
from orchestrator.serving.serve import GRACE_S
from orchestrator.up import state as book
from orchestrator.up.process import end, kill
from orchestrator.up.state import State

LIMIT_S = GRACE_S + guard.SWEEP_LIMIT_S + 5.0


def down(state: State) -> bool:
    """Whether there was something to end. What is left of an ended server is removed too.

    EngineError when it cannot be ended.
    """
    running = state.standing != "ended"
    if running:
        with contextlib.suppress(OSError):  # a full disk is a reason to end it
            book.settle(state.name, "stopping")
        state = book.find(state.name)
    # The guard ends all that is below it; without one yet, its `up` does.
    first = state.guard if state.guard is not None else state.owner
    if not end(first, LIMIT_S):
        kill(first)
    for process in (state.engine, first):
        if process is not None:
            kill(process)
            if not end(process, LIMIT_S):
                raise EngineError(
                    f"process {process.pid} cannot be ended.",
                    where=state.name,
                    fix="The kernel log may say why.",
                )
    book.drop(state)
    return running
