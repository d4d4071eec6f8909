"""report: a run's result made anew, as text, a page, Markdown, CSV or JSON."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.report.between import Run
    from orchestrator.rundir import RunDirectory


class Format(StrEnum):
    text = "text"
    html = "html"
    md = "md"
    csv = "csv"
    json = "json"


class Rows(StrEnum):
    samples = "samples"
    metrics = "metrics"


def register(app: typer.Typer) -> None:
    """Add the command to the top level."""
    app.command()(report)


def report(
    runs: list[Path] = typer.Argument(help="Run directories; several are put side by side."),
    form: Format = typer.Option(Format.text, "--format", help="What to make."),
    rows: Rows | None = typer.Option(
        None, "--rows", help="csv and json: a row per request, or one per metric (csv: samples)."
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        help="File to write. Default: stdout; html: report.html in the run directory, of several "
        "runs side-by-side.html here.",
    ),
    as_json: bool = typer.Option(False, "--json", help="The same as --format json."),
) -> None:
    """Make the result of a run anew out of its directory, and show it."""
    from backends.errors import InputError

    form = Format.json if as_json else form
    if rows is not None and form not in (Format.csv, Format.json):
        raise InputError("--rows goes with --format csv or json.")
    found = [_made_anew(path) for path in runs]
    text = _one(found[0], form, rows) if len(found) == 1 else _several(found, form, rows)
    if out is None and form is Format.html:
        alone = len(found) == 1
        out = found[0][0].path / "report.html" if alone else Path("side-by-side.html")
    if out is None:
        sys.stdout.write(text)
    else:
        _write(out, text)
        print(out, file=sys.stderr)
    if any(arm["status"] != "ok" for _, result in found for arm in result["arms"]):
        raise typer.Exit(1)


def write_beside(run: RunDirectory, result: Mapping[str, Any]) -> list[Path]:
    """report.html and report.md in the run directory, as a run leaves them."""
    from orchestrator.report import html, markdown
    from orchestrator.report.facts import load

    facts = load(run, result)
    made = [run.path / "report.md", run.path / "report.html"]
    _write(made[0], markdown.render(facts))
    _write(made[1], html.render(facts))
    return made


def _made_anew(path: Path) -> Run:
    """The result out of the facts; result.json is brought up to date where that is allowed."""
    from orchestrator.result.build import build
    from orchestrator.rundir import RunDirectory, write_json

    run = RunDirectory.open(path)
    result = build(run)
    try:
        write_json(run.result_file, result)
    except OSError as error:
        print(f"{run.result_file} is left as it was: {error.strerror}", file=sys.stderr)
    return run, result


def _one(run: Run, form: Format, rows: Rows | None) -> str:
    from orchestrator.report import html, markdown, terminal
    from orchestrator.report.facts import load

    if form is Format.html:
        return html.render(load(*run))
    if form is Format.md:
        return markdown.render(load(*run))
    if form is Format.text:
        return terminal.render(run[1])
    return _data(run[1], [run], form, rows)


def _several(runs: Sequence[Run], form: Format, rows: Rows | None) -> str:
    from orchestrator.report import several, several_page

    if form is Format.html:
        return several_page.render(runs)
    if form is Format.md:
        return several.as_markdown(runs)
    if form is Format.text:
        return several.text(runs)
    return _data(several.as_json(runs) if form is Format.json else None, runs, form, rows)


def _data(whole: Any, runs: Sequence[Run], form: Format, rows: Rows | None) -> str:
    """CSV or JSON; `whole` is what JSON holds when no rows are asked for."""
    import json

    from orchestrator.report import rows as flat

    if form is Format.json and rows is None:
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    if rows is Rows.metrics:
        found = [row for run, result in runs for row in flat.metrics(run.path.name, result)]
    else:
        found = [row for run, _ in runs for row in flat.samples(run)]
    if form is Format.csv:
        return flat.to_csv(found)
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    from backends.errors import InputError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}.", where=str(path)) from None
