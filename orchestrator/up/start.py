"""From a choice to a server that answers, drafts, and is known to every later museorch."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from backends import BACKENDS
from backends.base import Request, SpecRecord
from backends.errors import EngineError, InputError, MuseorchError
from orchestrator import patching
from orchestrator.dummy.write import make
from orchestrator.serving.launch import reserved_port, url, usable_port
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import Server, serve
from orchestrator.up import state as book
from orchestrator.up.choice import Choice, Options
from orchestrator.up.gate import gate, requests_for
from orchestrator.up.process import process
from orchestrator.up.state import State

FIRST_PORT = 8000
PORTS = 100
KEY_CHARACTERS = range(16, 513)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Up:
    """A server that passed its gate."""

    state: State
    server: Server
    record: SpecRecord | None
    """Speculation over the gate's requests; None without a drafter."""
    patches: tuple[str, ...]
    slot_context: int | None
    """As the engine tells it."""


def check_access(options: Options, choice: Choice, key: str | None) -> None:
    """Others reach a server only with a key, and a key goes only where no one else reads it."""
    if options.host not in LOOPBACK and key is None:
        raise InputError(
            f"{options.host} can be reached by others, so an API key is needed.",
            where="--host",
            fix="Set MUSEORCH_API_KEY, or give --api-key.",
        )
    if key is None:
        return
    plain = key.isascii() and key.isprintable() and not set(key) & set(" ,")
    if len(key) not in KEY_CHARACTERS or not plain:
        raise InputError(
            f"an API key has {KEY_CHARACTERS[0]} to {KEY_CHARACTERS[-1]} characters of ASCII, none "
            "of them a space or a comma.",
            where="--api-key",
        )
    if choice.planned.plan.key_env is None:
        raise InputError(
            f"{choice.arm.backend} shows its key in its own log and arguments, so museorch does "
            "not give it one.",
            where="--api-key",
            fix="Unset MUSEORCH_API_KEY and put a proxy that checks keys before 127.0.0.1, or use "
            "another --backend.",
        )


@contextmanager
def start(
    choice: Choice,
    options: Options,
    *,
    name: str,
    key: str | None,
    detach: bool,
    patch_in_place: bool,
    on_progress: Callable[[str], None],
) -> Iterator[Up]:
    """Start, wait for a real generation, check that drafts are accepted, yield.

    With `detach` the server outlives the block. On any failure nothing but its log is left.
    Raises InputError, EngineError, PatchError.
    """
    check_access(options, choice, key)
    if (problem := choice.problem()) is not None:
        raise problem
    requests = _requests(choice, options)
    with book.claim(name) as taken:
        port, kept = _port(options.host, choice.recipe.serve.port, taken)
        state = _first_state(choice, options, name, port, key, detach)
        book.write(state)
    done, keep_log = False, True
    try:
        patches = _patch(choice, patch_in_place)
        make(choice.model, [choice.arm], on_progress)
        overlays = {
            overlay.placeholder: str(materialise(overlay, state.folder / "overlays"))
            for overlay in choice.planned.plan.overlays
        }

        def known(server: Server) -> None:
            nonlocal state
            state = replace(state, guard=process(server.guard_pid), engine=process(server.pid))
            book.write(state)

        plan, backend = choice.planned.plan, BACKENDS[choice.arm.backend]
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        with serve(
            plan,
            backend,
            folder=state.folder,
            probe=replace(requests[0], max_tokens=2),
            model=choice.planned.spec.served_name,
            port=port,
            overlay_paths=overlays,
            on_progress=on_progress,
            on_start=known,
            secret_env={str(plan.key_env): key} if key is not None else {},
            headers=headers,
            detach=detach,
        ) as server:
            state.log.chmod(0o600)
            record = gate(choice, server, requests, headers, on_progress)
            state = replace(state, phase="ready")
            book.write(state)
            kept.close()  # the engine has bound it
            yield Up(state, server, record, patches, backend.slot_context(server.facts))
        done, keep_log = True, False
    except MuseorchError:
        if book.stopping(name):
            what = "ended by `museorch down` before it was ready."
            raise EngineError(what, where=name) from None
        raise
    except KeyboardInterrupt:
        # Wherever it strikes after the gate it is a clean end, with nothing to look up in a log.
        keep_log = state.phase != "ready"
        raise
    finally:
        kept.close()
        if not (done and detach):
            book.drop(state, keep_log=keep_log)


def _requests(choice: Choice, options: Options) -> tuple[Request, ...]:
    try:
        return requests_for(choice)
    except InputError as error:
        if options.recipe is not None:
            raise
        # The model's own prompts are right, so what they lack is room.
        raise InputError(error.what, where="--context-length", fix="Ask for more.") from None


def _port(host: str, asked: int | None, taken: Collection[int]) -> tuple[int, socket.socket]:
    """The one asked for, or the first free one from 8000 on, or any free one; and what keeps it."""
    if asked is not None:
        return reserved_port(host, asked)
    try:
        usable_port(host, None)
    except InputError:
        what = f"{host!r} is no address of this machine."
        raise InputError(what, where="--host", fix="`ip address` lists them.") from None
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        if port in taken:
            continue
        try:
            return reserved_port(host, port)
        except InputError:
            continue
    return reserved_port(host, None)


def _first_state(
    choice: Choice, options: Options, name: str, port: int, key: str | None, detach: bool
) -> State:
    arm, spec = choice.arm, choice.planned.spec
    return State(
        name=name,
        phase="starting",
        owner=process(os.getpid()),
        # As chosen, so that a restart serves the same.
        options=replace(
            options,
            port=port,
            arm=arm.id if options.recipe is not None else None,
            model=options.model if options.recipe is not None else _model(choice, options),
            device=choice.recipe.device,
            backend=arm.backend,
            speculation=arm.speculation,
            quant=arm.target.quantisation,
            draft_tokens=arm.draft_tokens,
        ),
        backend=arm.backend,
        engine_version=spec.engine_version,
        model=spec.served_name,
        speculation=arm.speculation,
        draft_tokens=choice.planned.plan.draft_tokens,
        quantisation=arm.target.quantisation,
        device=spec.device,
        slots=spec.slots,
        context_length=spec.context_length,
        host=options.host,
        port=port,
        url=url(options.host, port),
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        needs_key=key is not None,
        detached=detach,
    )


def _model(choice: Choice, options: Options) -> str:
    return options.model if options.model is not None else choice.model.model.name


def _patch(choice: Choice, in_place: bool) -> tuple[str, ...]:
    engine, wanted = choice.planned.engine, choice.planned.plan.patches
    assert engine is not None, "problem() has been asked"
    if engine.packages is None or not wanted:
        return ()
    known = BACKENDS[choice.arm.backend].patches
    applied = patching.ensure(
        engine.packages,
        [patch for patch in known.values() if patch.id in wanted],
        owned=engine.owned,
        in_place=in_place,
    )
    return tuple(patch.id for patch in applied)
