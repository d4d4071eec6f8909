"""Tables of what a result rests on: conditions, machine, patches, published claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.comparing.certify import CONDITIONS
from orchestrator.report import conditions, words
from orchestrator.report.facts import Phase, RunFacts
from orchestrator.report.tables import Cell, Table, mode_of, num


def machine(result: Mapping[str, Any], phase: Phase) -> Table:
    """What was seen of the machine while each arm was measured; GPU columns only with a GPU."""
    seen = [
        (arm["id"], mode["observed"])
        for arm in result["arms"]
        if (mode := mode_of(arm, phase)) is not None and mode["observed"] is not None
    ]
    with_gpu = any("power_w" in observed["gpu"] for _, observed in seen)
    columns = ["arm", "threads kept busy by others", "load average before", "after"]
    if with_gpu:
        columns += [
            "GPU power while busy (W)",
            "SM clock, median (MHz)",
            "lowest",
            "clocks lowered by",
        ]
    rows = []
    for arm, observed in seen:
        load, gpu = observed["load"], observed["gpu"]
        row = [
            Cell(arm),
            num(load["foreign_threads"], 2, "the phase was shorter than a second"),
            num(load["average_before"], 2),
            num(load["average_after"], 2),
        ]
        if with_gpu:
            clock = gpu.get("sm_mhz", {})
            row += [
                num(gpu.get("power_w"), 1, gpu.get("reason")),
                num(clock.get("median"), 0),
                num(clock.get("min"), 0),
                Cell(conditions.show(gpu.get("slowdowns"))),
            ]
        rows.append(tuple(row))
    return Table("The machine meanwhile", tuple(columns), tuple(rows))


def certificate(result: Mapping[str, Any], phase: Phase) -> Table:
    """Every condition of every arm; a row where arms differ is marked."""
    measured = [(arm, mode) for arm in result["arms"] if (mode := mode_of(arm, phase)) is not None]
    rows = []
    for name, meaning in CONDITIONS.items():
        values = [mode["conditions"].get(name) for _, mode in measured]
        differs = any(value != values[0] for value in values)
        label = conditions.condition(name)
        head = Cell(
            f"{label} ≠" if differs else label, why=meaning, mark="differs" if differs else ""
        )
        sources = (mode["condition_sources"].get(name) for _, mode in measured)
        rows.append((head, *map(_condition, values, sources)))
    columns = ("condition", *(arm["id"] for arm, _ in measured))
    return Table("Conditions", columns, tuple(rows))


def claims(result: Mapping[str, Any]) -> Table:
    """Published claims about the model that ran; none about other models."""
    from orchestrator.published.claim_check import check
    from orchestrator.published.claims import load_claims

    rows = []
    for name, published in load_claims().items():
        found = check(published, result)
        if found is None or not any(c.field == "model" for c in found.of("shared")):
            continue
        measured = "; ".join(
            f"{one.what}: claimed {one.claimed:g}, here {one.measured:.4g}" for one in found.against
        )
        rows.append(
            (
                Cell(name),
                Cell(published.claim.headline()),
                Cell("comparable" if found.comparable else "not comparable"),
                Cell(", ".join(c.field for c in found.of("differs")) or "nothing"),
                Cell(", ".join(c.field for c in found.of("unknown")) or "nothing"),
                Cell(measured or words.UNKNOWN),
            )
        )
    columns = ("claim", "published", "this run", "differs in", "not known", "side by side")
    note = "Numbers stand side by side only where every condition that matters is the same."
    return Table("Published claims", columns, tuple(rows), note)


def patches(result: Mapping[str, Any]) -> Table:
    rows: dict[tuple[str, str], tuple[Cell, ...]] = {}
    for arm in result["arms"]:
        for patch in arm["patches"]:
            for file in patch["files"]:
                before, after = str(file.get("before")), str(file.get("after"))
                rows[patch["id"], str(file.get("path"))] = (
                    Cell(f"{words.ENGINES[arm['backend']]} {arm['engine_version']}"),
                    Cell(patch["id"]),
                    Cell(patch["title"]),
                    Cell(str(file.get("path"))),
                    Cell(before[:12], why=before, mark="hash"),
                    Cell(after[:12], why=after, mark="hash"),
                )
    columns = ("engine", "patch", "what it does", "file", "sha256 before", "after")
    return Table("Patches", columns, tuple(rows.values()))


def environment(facts: RunFacts) -> Table:
    """Machine and versions; what is unknown is left out."""
    machine = facts.environment
    cpu, harness = machine.get("cpu") or {}, machine.get("museorch") or {}
    git, load = harness.get("git"), machine.get("load_average")
    memory = machine.get("memory_bytes")
    found: list[tuple[str, Any]] = [
        ("hardware of the arms", facts.result["hardware"]),
        ("CPU", cpu.get("model")),
        ("CPU threads, usable", cpu.get("usable")),
        ("memory", f"{memory / 2**30:.1f} GiB" if memory else None),
        ("load average at the start", ", ".join(f"{x:.2f}" for x in load) if load else None),
    ]
    for index, gpu in enumerate(machine.get("gpus") or []):
        found.append((f"GPU {index}", ", ".join(f"{key} {value}" for key, value in gpu.items())))
    found += [
        ("platform", machine.get("platform")),
        ("Python", machine.get("python")),
        ("museorch", harness.get("version")),
        (
            "museorch commit",
            f"{git['commit']}{', with local changes' if git['dirty'] else ''}" if git else None,
        ),
    ]
    engines = {(arm["backend"], arm["engine_version"]) for arm in facts.result["arms"]}
    found += [(words.ENGINES[backend], version) for backend, version in sorted(engines)]
    rows = tuple((Cell(name), Cell(str(value))) for name, value in found if value is not None)
    return Table("Environment", ("what", "found"), rows)


def _condition(value: Any, source: str | None) -> Cell:
    text, full = conditions.show(value), conditions.show(value, whole=True)
    return Cell(f"{text} ({source})" if source else text, why=full if full != text else None)
