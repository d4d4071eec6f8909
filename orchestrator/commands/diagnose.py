"""diagnose: say why a server failed, from its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from orchestrator.diagnose import Diagnosis


def diagnose(
    log: str = typer.Argument(help="A server log, a run directory, or `-` for a log piped in."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Say why a server failed: the first cause in its log, and what to do.

    Exit status 1 where a log holds an error that no known signature fits.
    """
    results = _results(log)
    if as_json:
        _print_json(results)
    else:
        _print(results)
    if not all(result.explained for _, result in results):
        raise typer.Exit(1)


def _results(log: str) -> list[tuple[str, Diagnosis]]:
    import sys

    from backends.errors import InputError
    from orchestrator.diagnose import diagnose, diagnose_stream

    if log == "-":
        return [(log, diagnose_stream(sys.stdin.buffer))]
    path = Path(log)
    if not path.is_dir():
        return [(log, diagnose(path))]
    logs = sorted(path.glob("arms/*/**/server.log"))
    if not logs:
        raise InputError(
            "no server log in this directory",
            where=log,
            fix="A run keeps them below arms/; or give the path of one log.",
        )
    return [(str(found), diagnose(found)) for found in logs]


def _print_json(results: list[tuple[str, Diagnosis]]) -> None:
    import json
    from dataclasses import asdict

    from orchestrator.diagnose.text import safe

    logs = [
        {
            "log": safe(name),
            "summary": result.summary,
            "explained": result.explained,
            **asdict(result),
        }
        for name, result in results
    ]
    print(json.dumps({"schema": 1, "logs": logs}, indent=1))


def _print(results: list[tuple[str, Diagnosis]]) -> None:
    from orchestrator.diagnose.text import safe

    for name, result in results:
        engine = " ".join(part for part in (result.engine, result.engine_version) if part)
        print(f"{safe(name)} ({engine or 'engine not recognised'})")
        if result.skipped_bytes:
            print(f"  {result.skipped_bytes:,} bytes in the middle were not looked at")
        if not result.explained:
            print("  unknown; the first error is")
            print(f"     {_place(result.first_error_line)}: {result.first_error}")
        for rank, finding in enumerate(result.findings, 1):
            print(f"  {rank}. {finding.title} [{finding.level}, {finding.signature}]")
            print(f"     {_place(finding.line)}: {finding.evidence}")
            print(f"     why: {finding.cause}")
            print(f"     fix: {finding.fix}")
        if result.explained and not result.findings:
            print("  no error found")


def _place(line: int | None) -> str:
    return "near the end" if line is None else f"line {line}"
