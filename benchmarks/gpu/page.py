"""Each docs/measurements/<gpu>.md from the results in the folder beside it.

    python -m benchmarks.gpu.page [--keep GPU RUN...]

`--keep` first copies the results of run directories there. Every number on a page comes from these
files, and through the modules that make museorch's own reports.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema

import orchestrator
from backends.errors import InputError, MuseorchError
from benchmarks.gpu import claims
from orchestrator.comparing.best_k import predict
from orchestrator.inputs.library import shipped_paths
from orchestrator.inputs.models import RECIPES
from orchestrator.inputs.recipe import load_recipe
from orchestrator.job import prepare
from orchestrator.report import (
    between,
    conditions,
    markdown,
    roofline,
    tables,
    verification,
    words,
)
from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.safe import inert
from orchestrator.report.tables import Cell, Table, num
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory, read_json

Result = Mapping[str, Any]
MEASUREMENTS = Path(__file__).resolve().parent.parent.parent / "docs" / "measurements"
SCHEMA = Path(orchestrator.__file__).parent / "schemas" / "result.schema.json"
RATES = re.compile(r"rates ([\d.e -]+)$")
"""In the words of backends.simulate.Simulated."""


def read(path: Path) -> Result:
    """Raises InputError for a result that is no whole result."""
    result = read_json(path)
    try:
        jsonschema.validate(result, read_json(SCHEMA))
    except jsonschema.ValidationError as error:
        where = f"{path}: {error.json_path}"
        raise InputError(f"no result of museorch: {error.message[:100]}.", where=where) from None
    if not result["complete"]:
        raise InputError("incomplete; finish it with `compare --resume`.", where=str(path))
    safe: Result = inert(result)
    return safe


def keep(run: Path, folder: Path) -> Path:
    """The run's result, made anew, without white space and without this machine's paths."""
    path = folder / run.resolve().name / "result.json"
    text = json.dumps(build(RunDirectory.open(run)), separators=(",", ":"), ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(re.sub(r"(?<![\w.])/[^\s\"]*/(?=arms/)", "", text) + "\n", encoding="utf-8")
    return path


def page(folder: Path) -> str:
    """The page of one GPU. Raises InputError where there is nothing to tell."""
    found = {path.parent.name: read(path) for path in sorted(folder.glob("*/result.json"))}
    if not found:
        raise InputError("no */result.json; keep a run's with --keep.", where=str(folder))
    if len(machines := {result["hardware"] for result in found.values()}) > 1:
        told = "; ".join(sorted(map(str, machines)))
        raise InputError(f"results of several machines: {told}.", where=str(folder))
    runs = [(RunDirectory(folder / name), result) for name, result in found.items()]
    parts = [
        f"# {machines.pop()}",
        "Made by `python -m benchmarks.gpu.page` from "
        + ", ".join(f"[{name}]({folder.name}/{name}/result.json)" for name in found)
        + ".",
        "Rates of different quantisations stand side by side and get no ratio; where a recipe "
        "allows one as a bridge, it is labelled and no speed-up.",
        "## Side by side",
        markdown.table(between.overview(runs), titled=False),
        markdown.table(between.metrics(runs), titled=False),
        *_section("Ratios", [_ratios(found)]),
        *_section("What a step costs", [_merged(found, verification.table)]),
        *_section("Which K is best", [_best(found)]),
        *_section("Against the memory roofline", [_merged(found, roofline.table)]),
        *_section("Power and energy", [_merged(found, roofline.costs)]),
        "## Start-up",
        "\n".join(f"- {n}. {text}" for n, r in found.items() for text in roofline.startup(r)),
        *_section("Published claims", [claims.nearest(found), claims.steps(found)]),
        "## Commands",
        "\n".join(
            f"- [{n}]({folder.name}/{n}.md): `{shlex.join(_command(r))}`" for n, r in found.items()
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, found: Sequence[Table]) -> list[str]:
    whole = [table for table in found if table.rows]
    texts = (markdown.table(table, titled=bool(table.title)) for table in whole)
    return [f"## {title}", *texts] if whole else []


def _merged(found: Mapping[str, Result], make: Callable[[Result, Phase], Table]) -> Table:
    """One table of all runs and phases; a cell that a run's table lacks stays empty."""
    made = [
        (name, phase, table)
        for name, result in found.items()
        for phase in words.phases(result)
        if (table := make(result, phase)).rows
    ]
    columns = list(dict.fromkeys(column for *_, table in made for column in table.columns))
    rows = []
    for name, (mode, concurrency), table in made:
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            head = (Cell(name), Cell(f"{mode}, {concurrency} at a time"))
            rows.append((*head, *(cells.get(column, Cell("")) for column in columns)))
    notes = dict.fromkeys(table.note for *_, table in made if table.note is not None)
    return Table("", ("run", "phase", *columns), tuple(rows), " ".join(notes) or None)


def _ratios(found: Mapping[str, Result]) -> Table:
    """Every pair that has a ratio; of the others, how many there are and why."""
    table = _merged(found, tables.pairs)
    pairs = [pair for result in found.values() for pair in result["comparisons"]]
    refused = Counter(conditions.differing(pair) for pair in pairs if pair["ratio"] is None)
    why = ", ".join(f"{cause} ({number})" for cause, number in refused.most_common())
    note = f"{table.note} No ratio, as the arms differ in: {why}." if refused else table.note
    place = table.columns.index("verdict")
    rows = tuple(row for row in table.rows if row[place].text != "refused")
    return replace(table, rows=rows, note=note)


def _simulated(found: Mapping[str, Result]) -> dict[tuple[str, str], dict[int, Sequence[float]]]:
    """Every acceptance curve that was simulated, by drafter and name."""
    curves: dict[tuple[str, str], dict[int, Sequence[float]]] = {}
    for arm in (arm for result in found.values() for arm in result["arms"]):
        if told := RATES.search(arm["acceptance"]):
            rates = [float(rate) for rate in told[1].split()]
            name = f"{words.DRAFTERS[arm['speculation']]}, {1 + sum(rates):.3g} a step"
            curves[arm["speculation"], name] = {len(rates): rates}
    return curves


def _best(found: Mapping[str, Result]) -> Table:
    """The K with the highest expected rate, for each measured cost and acceptance of a drafter."""
    rows = []
    for (name, result), ((drafter, acceptance), marginals) in product(
        found.items(), _simulated(found).items()
    ):
        for cost in result["verification"]:
            steps = {point["draft_tokens"]: point["step_ms"] for point in cost["points"]}
            if cost["speculation"] != drafter or max(marginals) < max(steps):
                continue
            best = max(predict(steps, marginals), key=lambda point: point.tok_s)
            plain = 1000 / cost["plain_ms"] if cost["plain_ms"] else None
            phase = f"{cost['mode']}, {cost['concurrency']} at a time"
            rows.append(
                (
                    *map(Cell, (name, words.ENGINES[cost["backend"]], phase, acceptance)),
                    num(best.draft_tokens, 0),
                    num(best.acceptance_length, 2),
                    num(best.step_ms, 2),
                    num(best.tok_s, 1),
                    num(plain, 1, "no plain arm"),
                )
            )
    columns = (
        *("run", "engine", "phase", "acceptance at the largest K"),
        *("best K", "tokens a step", "step (ms)", "expected tok/s", "plain tok/s"),
    )
    note = (
        "Expected, not measured: tokens a step at a smaller K follow from the curve, and steps "
        "between two K that were timed are interpolated; see orchestrator/comparing/best_k.py."
    )
    return Table("Best K", columns, tuple(rows), note)


def report(name: str, result: Result) -> str:
    """The run's own report, as far as its result tells it; no page of the site by itself."""
    facts = RunFacts(Path(name), result, {"command": _command(result)}, {}, "", (), ())
    head = ["---", "orphan: true", "---", "", f"# {name}"]
    return "\n".join([*head, *markdown.render(facts).splitlines()[1:]]) + "\n"


def _command(result: Result) -> list[str]:
    """`museorch compare` of a shipped recipe, with the arms if they were not all."""
    known = (path for path in shipped_paths() if load_recipe(path)[0].name == result["recipe"])
    path = next(known, None)
    if path is None:
        return ["museorch", "compare", result["recipe"]]
    job = prepare(str(path.relative_to(RECIPES).with_suffix("")))
    command = ["museorch", "compare", str(path.relative_to(RECIPES).with_suffix(""))]
    arms = [arm["id"] for arm in result["arms"]]
    if arms != [arm.id for arm in job.arms]:
        command += [word for arm in arms for word in ("--arms", arm)]
    if (asked := result["workload"]["concurrency"]) != job.recipe.workload.concurrency:
        command += ["--concurrency", ",".join(map(str, asked))]
    return command


def write(measurements: Path) -> Iterator[Path]:
    """Each GPU's page and its runs' reports. Raises InputError where there is none."""
    folders = sorted({path.parent.parent for path in measurements.glob("*/*/result.json")})
    if not folders:
        raise InputError("no GPU was measured yet: no */*/result.json.", where=str(measurements))
    for folder in folders:
        texts = {folder.with_suffix(".md"): page(folder)}
        for path in sorted(folder.glob("*/result.json")):
            texts[path.parent.with_suffix(".md")] = report(path.parent.name, read(path))
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
            yield path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", nargs="+", metavar=("GPU", "RUN"), default=[])
    options = parser.parse_args()
    for run in options.keep[1:]:
        print(keep(Path(run), MEASUREMENTS / options.keep[0]))
    for path in write(MEASUREMENTS):
        print(path)


if __name__ == "__main__":
    try:
        main()
    except MuseorchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
