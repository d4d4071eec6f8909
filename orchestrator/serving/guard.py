"""A process between museorch and an engine, so that the engine never outlives museorch.

    python -m orchestrator.serving.guard --log FILE [--grace SECONDS] [--detach] -- argv...

museorch holds the other end of this process' stdin. When that pipe closes, because museorch asked
or because it died in whatever way, or on SIGTERM, the engine's process group gets SIGTERM, and
after the grace, or at the next SIGTERM, every descendant gets SIGKILL, those included that left the
group. The same sweep follows when the engine ends by itself. With --detach there is no pipe:
SIGTERM alone ends it.

The first line of stdout is `pid N`, or `error WHY` when the engine cannot be run. The exit status
is the engine's, 128 + N when signal N ended it, 127 when it could not be run.

Standard library only: museorch runs this file by itself, isolated, in the engine's environment.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEP_LIMIT_S = 10.0
"""A killed process that is stuck in the kernel for longer is left to init."""
NOT_RUN = 127


def main(args: list[str]) -> int:
    options = _parse(args)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_on_signals(hangup=not options.detach)
    try:
        engine = _start(options.argv, options.log)
    except OSError as error:
        print(f"error {error.filename or options.argv[0]}: {error.strerror}", flush=True)
        return NOT_RUN
    print(f"pid {engine.pid}", flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    watched = [wake] if options.detach else [wake, sys.stdin.fileno()]

    status: int | None = None
    kill_at: float | None = None
    while status is None:
        now = time.monotonic()
        if kill_at is not None and now >= kill_at:
            break
        ready = select.select(watched, [], [], None if kill_at is None else kill_at - now)[0]
        asked = any(fd != wake and not os.read(fd, 4096) for fd in ready)
        if wake in ready:
            asked |= any(number != signal.SIGCHLD for number in os.read(wake, 4096))
        if asked and kill_at is not None:
            kill_at = time.monotonic()
        elif asked:
            kill_at = time.monotonic() + options.grace
            watched = [wake]
            _signal_group(engine.pid, signal.SIGTERM)
        status = _reap(engine.pid, status)
    status = _sweep(engine.pid, status)
    return status if status >= 0 else 128 - status


def _parse(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="orchestrator.serving.guard")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--grace", type=float, default=10.0)
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("argv", nargs="+")
    return parser.parse_args(args)


def _start(argv: list[str], log: Path) -> subprocess.Popen[bytes]:
    """The engine: it leads a process group of its own and dies with this process."""
    guard = os.getpid()

    def die_with_guard() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:  # it died before the line above
            os._exit(NOT_RUN)

    with log.open("ab") as out:
        os.dup2(out.fileno(), sys.stderr.fileno())
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            process_group=0,
            preexec_fn=die_with_guard,
        )


def _wake_on_signals(*, hangup: bool) -> int:
    """A file descriptor that yields the number of every signal that arrives."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, (lambda *_: None) if hangup else signal.SIG_IGN)
    return reader


def _reap(engine: int, status: int | None) -> int | None:
    """Collect every child that has ended; the engine's status once known, -N for signal N."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == engine:
                status = os.waitstatus_to_exitcode(code)
    return status


def _sweep(engine: int, status: int | None) -> int:
    """SIGKILL to whatever is left, until nothing is. Returns the engine's status."""
    deadline = time.monotonic() + SWEEP_LIMIT_S
    _signal_group(engine, signal.SIGKILL)
    while True:
        status = _reap(engine, status)
        left = _descendants(os.getpid())
        if not left and status is not None:
            return status
        if time.monotonic() > deadline:
            return -signal.SIGKILL if status is None else status
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _descendants(root: int) -> list[int]:
    """Pids below `root`, from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The command, in parentheses, may hold anything: count from its end.
            after = entry.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after[1]), []).append(int(entry.parent.name))
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group alone has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
