"""What memory allows, what an arm makes of it, and what it costs to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.report import words
from orchestrator.report.facts import Phase
from orchestrator.report.tables import Cell, Table, mode_of, num, times

FEW = 6
"""Arms named one by one; the table has all."""
IN_CACHE = 1.05
"""A share above this is no fault of the measurement: copying is that exact."""


def said(result: Mapping[str, Any], phase: Phase) -> Iterator[str]:
    """The table in a few sentences; nothing where no arm's step time is known."""
    shares = _shares(result, phase)
    if not shares:
        return
    memory, names = result["bandwidth"], words.arm_names(result)
    shares = [(names[arm], share) for arm, share in shares]
    yield (
        "A step takes at least the time in which memory delivers its weights. Memory gave "
        f"{_rate(memory['bytes_per_s'])} here ({memory['how']}). Of that limit {_reached(shares)}."
    )
    if any(share > IN_CACHE for _, share in shares):
        yield "More than 100 %: the weights stay in a cache, so memory does not limit such a step."


def _reached(shares: Sequence[tuple[str, float]]) -> str:
    if len(shares) <= FEW:
        return ", ".join(f"{name} reaches {_percent(share)}" for name, share in shares)
    least, most = (_percent(end(share for _, share in shares)) for end in (min, max))
    return f"the arms reach {least.removesuffix(' %')} to {most}"


def _percent(share: float) -> str:
    """Whole, but never 0 of something."""
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def brief(result: Mapping[str, Any], phase: Phase) -> Iterator[str]:
    """The same for a terminal, and energy where there is a GPU."""
    if shares := _shares(result, phase):
        told = ", ".join(f"{arm} {_percent(share)}" for arm, share in shares)
        memory = _rate(result["bandwidth"]["bytes_per_s"])
        yield f"Weights are read at this share of memory's {memory}: {told}."
    found = [
        f"{arm['id']} {mode['metrics']['energy_j_per_token']['value']:.2f} J "
        f"at {mode['metrics']['power_w']['value']:.0f} W"
        for arm, mode in _measured(result, phase)
        if mode["metrics"].get("energy_j_per_token", {}).get("value") is not None
    ]
    if found:
        yield f"Energy for each output token, prompts included, whole GPU: {', '.join(found)}."


def startup(result: Mapping[str, Any]) -> Iterator[str]:
    """From the launch of each server to its first generated token."""
    found = [
        f"{arm['id']} {arm['startup_s']:.1f} s"
        for arm in result["arms"]
        if arm["startup_s"] is not None
    ]
    if found:
        yield f"Start-up: {', '.join(found)}."


def table(result: Mapping[str, Any], phase: Phase) -> Table:
    """Empty where requests share steps, as their time is not known then."""
    rows = []
    for arm, mode in _measured(result, phase):
        metrics, size = mode["metrics"], arm.get("step_bytes") or {}
        if metrics.get("weight_read_gb_s", {}).get("value") is None:
            continue
        rows.append(
            (
                Cell(arm["id"]),
                _gigabytes(size, "target"),
                _gigabytes(size, "drafter") if arm["speculation"] != "none" else num(None, 0),
                _metric(metrics, "step_time_ms", 2),
                _metric(metrics, "weight_read_gb_s", 1),
                _share(metrics["roofline_share"]),
                _metric(metrics, "ideal_speedup", 2),
                _gain(result, phase, arm),
            )
        )
    columns = (
        "arm",
        "target's weights (GB)",
        "drafter's (GB)",
        "step time (ms)",
        "read rate (GB/s)",
        "of memory's rate",
        "ideal gain",
        "gain here",
    )
    note = (
        "Counted: every matrix once, the output head too, also for the drafter; no embedding "
        "table, no KV cache. Ideal gain: acceptance length / (1 + drafter's bytes / target's), "
        "were memory the only limit."
    )
    return Table("Against the memory roofline", columns, tuple(rows), note)


def costs(result: Mapping[str, Any], phase: Phase) -> Table:
    """What was seen of the GPU; empty without one."""
    rows = []
    for arm, mode in _measured(result, phase):
        metrics = mode["metrics"]
        if (watts := metrics.get("power_w", {})).get("value") is not None:
            rows.append(
                (
                    Cell(arm["id"]),
                    _metric(metrics, "power_w", 0),
                    _metric(metrics, "energy_j_per_token", 2),
                    _metric(metrics, "gpu_memory_mib", 0),
                    num(watts["n"], 0),
                )
            )
    columns = ("arm", "power (W)", "energy (J/token)", "memory, most (MiB)", "readings")
    note = (
        "Energy: mean power of the whole GPU x time of the phase, prompts included, for each "
        "output token."
    )
    return Table("Power, energy and memory of the GPU", columns, tuple(rows), note)


def _measured(
    result: Mapping[str, Any], phase: Phase
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return [(arm, mode) for arm in result["arms"] if (mode := mode_of(arm, phase)) is not None]


def _shares(result: Mapping[str, Any], phase: Phase) -> list[tuple[str, float]]:
    found = [
        (arm["id"], mode["metrics"].get("roofline_share", {}).get("value"))
        for arm, mode in _measured(result, phase)
    ]
    return [(arm, share) for arm, share in found if share is not None]


def _metric(metrics: Mapping[str, Any], name: str, decimals: int) -> Cell:
    found = metrics.get(name, {})
    return num(found.get("value"), decimals, found.get("reason"))


def _share(metric: Mapping[str, Any]) -> Cell:
    return Cell(words.percent(metric["value"]), metric["value"], metric.get("reason"))


def _gigabytes(size: Mapping[str, Any], part: str) -> Cell:
    found = size.get(part)
    return num(found / 1e9 if found is not None else None, 3, size.get("reason"))


def _gain(result: Mapping[str, Any], phase: Phase, arm: Mapping[str, Any]) -> Cell:
    """Against the plain arm of the same engine."""
    plain = {
        other["id"]
        for other in result["arms"]
        if (other["backend"], other["speculation"]) == (arm["backend"], "none")
    }
    ratios = [
        row["ratio"]
        for row in words.in_order(result, phase)
        if row["a"] == arm["id"] and row["b"] in plain and row["ratio"] is not None
    ]
    return times(ratios[0] if ratios else None)


def _rate(bytes_per_s: float) -> str:
    return (
        f"{bytes_per_s / 1e12:.2f} TB/s" if bytes_per_s >= 1e12 else f"{bytes_per_s / 1e9:.1f} GB/s"
    )
