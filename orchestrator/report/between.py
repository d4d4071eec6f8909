"""Several runs side by side: arms of the same id, with the match certificate between runs.

Between runs nothing is under test, so only what a comparison of two such arms within one run may
let differ may differ here: another engine version, another machine or other prompts refuse a pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backends.base import SpecRecord
from orchestrator.comparing.certify import CONDITIONS, certify, kind_of, same
from orchestrator.comparing.compare import Comparison, compare
from orchestrator.comparing.noise import drift_floor
from orchestrator.load import sample
from orchestrator.measuring.metrics import METRICS, Phase
from orchestrator.report import safe, tables, words
from orchestrator.report.conditions import condition as named
from orchestrator.report.conditions import show
from orchestrator.report.labels import labels as unreal
from orchestrator.report.tables import Cell, Table
from orchestrator.result.build import comparison_json
from orchestrator.rundir import RunDirectory, block_turns, read_json

Run = tuple[RunDirectory, Mapping[str, Any]]
"""A run and its result."""


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its folder, numbered where two are the same."""
    names = [safe.plain(run.path.resolve().name) for run, _ in runs]
    return [
        name if names.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(names, start=1)
    ]


def comparisons(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every arm and phase that two runs share, as result.json writes comparisons.

    a is of the run given later, b of the one given earlier.
    """
    return [comparison_json(found) for found in _compared(runs)]


def answers(runs: Sequence[Run]) -> Iterator[str]:
    """Same machine? Same recipe? Real weights? In words, before any number."""
    facts = {
        "machine": [result["hardware"] or words.UNKNOWN for _, result in runs],
        "recipe": [result["recipe"] for _, result in runs],
        "version of museorch": [result["harness"] for _, result in runs],
    }
    runs_named = labels(runs)
    for what, values in facts.items():
        if len(set(values)) > 1:
            told = ", ".join(
                f"{value} in {name}" for name, value in zip(runs_named, values, strict=True)
            )
            yield safe.plain(f"Not the same {what}: {told}.")
        elif what == "recipe" and len({run.recipe_text() for run, _ in runs}) > 1:
            yield safe.plain(f"Not the same recipe: all are called {values[0]}, but they differ.")
        else:
            yield safe.plain(f"The same {what}: {values[0]}.")
    told_of: dict[str, list[str]] = {}
    for name, (_, result) in zip(runs_named, runs, strict=True):
        for label in unreal(result):
            told_of.setdefault(label, []).append(name)
    for label, where in told_of.items():
        yield safe.plain(f"{', '.join(where)}: {label}")


def conditions(runs: Sequence[Run], arm: str, phase: tuple[str, int]) -> Table:
    """Conditions of one arm in the runs that hold it; a row that refuses the pair is marked."""
    found = [
        (name, mode["conditions"])
        for name, (_, result) in zip(labels(runs), runs, strict=True)
        for one in result["arms"]
        if one["id"] == arm and (mode := tables.mode_of(one, phase)) is not None
    ]
    rows = []
    for condition, meaning in CONDITIONS.items():
        values = [given.get(condition) for _, given in found]
        alike = None not in values and all(same(condition, values[0], one) for one in values)
        mark = "" if alike else "differs"
        label = named(condition) + ("" if alike else " ≠")
        cells = (Cell(show(v), why=show(v, whole=True)) for v in safe.inert(values))
        rows.append((Cell(label, why=meaning, mark=mark), *cells))
    columns = ("condition", *(name for name, _ in found))
    return Table(f"Conditions of {safe.plain(arm)}", columns, tuple(rows))


def overview(runs: Sequence[Run]) -> Table:
    """One row a run."""
    rows = [
        (
            Cell(name),
            Cell(safe.plain(result["recipe"])),
            Cell(words.when(safe.plain(result["started"]))),
            Cell(safe.plain(result["hardware"] or words.UNKNOWN)),
            Cell(safe.plain(result["harness"])),
            Cell("complete" if result["complete"] else "incomplete"),
        )
        for name, (_, result) in zip(labels(runs), runs, strict=True)
    ]
    columns = ("run", "recipe", "started", "hardware", "museorch", "state")
    return Table("Runs", columns, tuple(rows))


def phases(runs: Sequence[Run]) -> list[tuple[str, int]]:
    """Of all runs, each once."""
    return list(dict.fromkeys(phase for _, result in runs for phase in words.phases(result)))


def arms(runs: Sequence[Run]) -> list[str]:
    """Of all runs, each once."""
    return list(dict.fromkeys(arm["id"] for _, result in runs for arm in result["arms"]))


def metrics(runs: Sequence[Run]) -> Table:
    """Arms of all runs, those of one phase and id below each other."""
    rows = []
    for phase, arm in itertools.product(phases(runs), arms(runs)):
        for name, (_, result) in zip(labels(runs), runs, strict=True):
            found = next((one for one in result["arms"] if one["id"] == arm), None)
            mode = tables.mode_of(found, phase) if found else None
            if mode is None:
                continue
            values = (
                tables.num(mode["metrics"][key]["value"], decimals)
                for key, _, decimals in words.METRICS
                if key in SHOWN
            )
            place = f"{phase[0]}, {phase[1]} at a time"
            k = tables.num(found["draft_tokens"] if found else None, 0, "no speculation")
            rows.append((Cell(safe.plain(arm)), Cell(safe.plain(place)), Cell(name), k, *values))
    units = {metric.name: metric.unit for metric in METRICS}
    shown = (f"{label} ({units[key]})" for key, label, _ in words.METRICS if key in SHOWN)
    columns = ("arm", "phase", "run", "K", *shown)
    return Table("Arms", columns, tuple(rows))


SHOWN = ("decode_tok_s", "ttft_ms", "tpot_ms", "acceptance_length", "step_time_ms")


def sentences(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each comparison between runs in words; rows as result.json writes comparisons."""
    for row in rows:
        yield f"{row['mode']}, {row['concurrency']} at a time: {words.sentence(row, {})}"


def _compared(runs: Sequence[Run]) -> Iterator[Comparison]:
    named = list(zip(labels(runs), runs, strict=True))
    for (early_name, early), (late_name, late) in itertools.combinations(named, 2):
        for arm, mode, other in _shared(late[1], early[1]):
            kind = kind_of(mode["conditions"], other["conditions"])
            yield compare(
                f"{arm} in {late_name}",
                f"{arm} in {early_name}",
                (_phase(late[0], arm, mode), _phase(early[0], arm, other)),
                mode=mode["mode"],
                concurrency=mode["concurrency"],
                kind=kind,
                certificate=certify(mode["conditions"], other["conditions"], kind),
                problems=[*mode["problems"], *other["problems"]],
                floors={"drift": max(_drift(late[1], mode), _drift(early[1], mode))},
            )


def _shared(
    late: Mapping[str, Any], early: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    before = {arm["id"]: arm for arm in early["arms"]}
    for arm in late["arms"]:
        if arm["id"] not in before:
            continue
        for mode in arm["modes"]:
            other = tables.mode_of(before[arm["id"]], (mode["mode"], mode["concurrency"]))
            if other is not None:
                yield arm["id"], mode, other


def _phase(run: RunDirectory, arm: str, mode: Mapping[str, Any]) -> Phase:
    paths = [
        run.turn(arm, repeat) / "samples.jsonl"
        for repeat in block_turns(read_json(run.run_file).get("blocks", 1))
    ]
    mine = [
        one
        for path in paths
        for one in (sample.read(path, notice=lambda _: None) if path.exists() else [])
        if (one.mode, one.concurrency) == (mode["mode"], mode["concurrency"]) and one.error is None
    ]
    told = mode["speculation"]
    record = (
        SpecRecord(
            told["steps"],
            told["drafted"],
            told["accepted"],
            tuple(told["per_position"]) or None,
            told["source"],
        )
        if told
        else None
    )
    conditions = mode["conditions"]
    drafts = conditions["draft_tokens"]
    return Phase(
        mine, record, conditions["speculation"], drafts if isinstance(drafts, int) else None
    )


def _drift(result: Mapping[str, Any], mode: Mapping[str, Any]) -> float:
    """Largest relative change of the run's reference arm between its turns."""
    return drift_floor(result["drift"], mode["mode"], mode["concurrency"])
