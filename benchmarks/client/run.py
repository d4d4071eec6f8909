"""museorch's client against its peers: `python -m benchmarks.client.run` (`make bench-client`).

Three questions, each asked of every client in turn before the next load is tried:
how wrong its TTFT, TPOT and output rate are; up to which rate; what a token costs it in CPU.
The answers go to docs/measurements/client.json, and from there to client.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from backends.errors import InputError, MuseorchError
from benchmarks.client import page, peers
from benchmarks.client.drive import CLIENT_CORE, MOCK_CORE, Run, drive, mock
from benchmarks.client.loads import FULL, QUICK, Sizes, cells, ladder
from benchmarks.client.mock import Rung
from benchmarks.client.peers import Client
from benchmarks.client.truth import Told

LIMIT = 0.01
"""The error up to which a rate counts as measured."""
BUSY = 0.5
"""Load average above which the machine is not quiet."""


def errors(told: Told, truth: Told) -> dict[str, float]:
    return {
        "ttft_error_ms": told.ttft_ms - truth.ttft_ms,
        "tpot_error": told.tpot_ms / truth.tpot_ms - 1,
        "rate_error": told.rate / truth.rate - 1,
    }


def compare(client: Client, run: Run, rungs: Sequence[Rung]) -> list[dict[str, Any]]:
    """One row a rung: what was true, what the client told and how wrong it was, or why nothing."""
    rows = []
    reason = run.told if isinstance(run.told, str) else None
    if reason is None and len(run.truth) != len(rungs):
        reason = f"only {len(run.truth)} of {len(rungs)} rungs were reached"
    for place, rung in enumerate(rungs):
        row: dict[str, Any] = {"client": client.name, "per_chunk": rung.per_chunk}
        row |= {"asked_rate": rung.rate, "truth": None, "told": None, "reason": reason}
        row |= {"mock_late_p99_ms": run.late_ms[0]}
        if place < len(run.truth):
            row["truth"] = asdict(run.truth[place])
        if reason is None:
            assert not isinstance(run.told, str)
            row["told"] = asdict(run.told[place])
            row |= errors(run.told[place], run.truth[place])
            counted = run.told[place].tokens
            row["lost_tokens"] = run.truth[place].tokens - counted if counted else None
        rows.append(row)
    return rows


def highest(rows: Sequence[dict[str, Any]]) -> float | None:
    """The mock's rate on the last rung before TPOT or output rate is wrong by more than LIMIT."""
    reached = None
    for row in rows:
        if row["reason"] or max(abs(row["tpot_error"]), abs(row["rate_error"])) > LIMIT:
            break
        reached = row["truth"]["rate"]
    return reached


def measure(
    url: str, clients: Sequence[Client], floors: Sequence[Client], sizes: Sizes
) -> dict[str, Any]:
    """`floors` are only asked how fast they can be and what they cost."""
    matrix: list[dict[str, Any]] = []
    commands: dict[str, str] = {}
    for streams in sizes.streams:
        rungs = cells(sizes, streams)
        for client in clients:
            run = _told(drive(url, client, streams, rungs), client, f"{streams} streams")
            commands[client.name] = run.command
            matrix += [{"streams": streams, **row} for row in compare(client, run, rungs)]
    climbs = []
    rungs = ladder(sizes)
    everyone = [*clients, *floors]
    for client in everyone:
        run = _told(drive(url, client, sizes.ladder_streams, rungs), client, "rising rate")
        commands.setdefault(client.name, run.command)
        rows = compare(client, run, rungs)
        climbs.append({"client": client.name, "highest_rate": highest(rows), "rungs": rows})
    return {
        "matrix": matrix,
        "ladder": climbs,
        "cost": [row for _ in range(sizes.cost_repeats) for row in cost(url, everyone, sizes)],
        "commands": commands,
    }


def cost(url: str, clients: Sequence[Client], sizes: Sizes) -> list[dict[str, Any]]:
    """CPU of a token: the difference of two runs, which takes the start-up out."""
    streams, rows = sizes.ladder_streams, []
    for client in clients:
        small, large = (
            _told(
                drive(
                    url,
                    client,
                    streams,
                    [Rung(streams * rounds, sizes.cost_tokens, sizes.stream_chunk_rate)],
                ),
                client,
                f"cost, {rounds} rounds",
            )
            for rounds in sizes.cost_rounds
        )
        failed = [run.told for run in (small, large) if isinstance(run.told, str)]
        row: dict[str, Any] = {"client": client.name, "reason": failed[0] if failed else None}
        for name, run in (("small", small), ("large", large)):
            row[name] = {"tokens": run.tokens, "cpu_s": run.cpu_s, "user_s": run.user_s}
        row |= {"us_per_token": None, "user_us_per_token": None}
        if not failed:
            per_token = 1e6 / (large.tokens - small.tokens)
            row["us_per_token"] = per_token * (large.cpu_s - small.cpu_s)
            row["user_us_per_token"] = per_token * (large.user_s - small.user_s)
        rows.append(row)
    return rows


def _told(run: Run, client: Client, what: str) -> Run:
    problem = f": {run.told}" if isinstance(run.told, str) else ""
    note = f"{client.name}, {what}: {run.wall_s:.1f} s, CPU {run.cpu_s:.2f} s{problem}"
    print(note, file=sys.stderr, flush=True)
    return run


def machine() -> dict[str, Any]:
    model = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "client_core": CLIENT_CORE,
        "mock_core": MOCK_CORE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=page.RESULT, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="only museorch, and little of it")
    parser.add_argument("--seconds", type=float, help="of each cell; the numbers suffer")
    parser.add_argument("--only", action="append", metavar="CLIENT", help="leave out the others")
    options = parser.parse_args()
    cores = os.sched_getaffinity(0)
    if not {CLIENT_CORE, MOCK_CORE} <= cores:
        raise InputError(f"cores {CLIENT_CORE} and {MOCK_CORE} are needed; there are {cores}.")
    sizes = QUICK if options.quick else FULL
    if options.seconds is not None:
        sizes = replace(sizes, seconds=options.seconds, cost_repeats=1)
    before = machine()
    if before["load_before"] > BUSY and not options.quick:
        print(f"load {before['load_before']}: others run, no number will be right", file=sys.stderr)
    there, missing = peers.found() if not options.quick else ([], {})
    clients = [peers.museorch(), *there]
    floors = [peers.museorch("sglang"), peers.museorch("llamacpp"), peers.bare()]
    if options.quick:
        floors = []
    if options.only is not None:
        clients = [client for client in clients if client.name in options.only]
        floors = [client for client in floors if client.name in options.only]
    os.sched_setaffinity(0, {MOCK_CORE})
    began = time.monotonic()
    with mock() as url:
        result = measure(url, clients, floors, sizes)
    result = {
        "schema": 1,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": before,
        "sizes": asdict(sizes),
        "clients": [
            {"name": client.name, "version": client.version, "peer": client in there}
            for client in [*clients, *floors]
        ],
        "missing": missing,
        **result,
        "seconds": round(time.monotonic() - began),
    }
    result = json.loads(json.dumps(result), parse_float=lambda text: float(f"{float(text):.6g}"))
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(page.tables(result))


if __name__ == "__main__":
    try:
        main()
    except MuseorchError as error:
        sys.exit(str(error))
