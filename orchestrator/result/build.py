"""result.json out of a run directory. Nothing else goes in, so a report can be made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from backends.errors import InputError
from orchestrator.comparing.blocks import Measured, join, join_status, with_last
from orchestrator.comparing.bridge import split_json, splits
from orchestrator.comparing.compare import Comparison
from orchestrator.comparing.verification import curves
from orchestrator.measuring import environment
from orchestrator.measuring.by_context import by_context
from orchestrator.measuring.metrics import Phase, measure
from orchestrator.measuring.speculation import speculation_json
from orchestrator.result.audits import distribution_rows, greedy_rows
from orchestrator.result.gather import turn_of
from orchestrator.result.pairs import compare_all, drift_floors, drift_rows
from orchestrator.rundir import BOOKEND, RunDirectory, block_turns, read_json

SCHEMA = 1


def build(run: RunDirectory) -> dict[str, Any]:
    """The whole result, recomputed from the facts in the run directory."""
    facts = read_json(run.run_file)
    machine = read_json(run.environment_file)
    plans = {plan["id"]: plan for plan in read_json(run.plan_file)}
    if strangers := {*facts["arms"], facts["reference"]} - plans.keys():
        raise InputError(f"lacks {', '.join(sorted(strangers))}.", where=str(run.plan_file))
    turn = partial(turn_of, run, facts, machine)
    arms: list[dict[str, Any]] = []
    measured: list[Measured] = []
    again: dict[str, Any] | None = None
    last: list[Measured] = []
    """Phases of the reference arm when it ran again at the end, as `again` is its status."""
    for name in facts["arms"]:
        turns = [turn(plans[name], number) for number in block_turns(facts["blocks"])]
        status = join_status([status for status, _ in turns])
        phases = join([phases for _, phases in turns])
        if name == facts["reference"] and facts["bookend"] and len(facts["arms"]) > 1:
            again, last = turn(plans[name], BOOKEND)
            status, phases = with_last(status, phases, again, last)
        arms.append(_arm_json(plans[name], status, phases))
        measured += phases
    drift = drift_rows(last, measured)
    allow, floor = facts["allow"], drift_floors(drift, facts["blocks"])
    costs = curves(measured)
    return {
        "schema": SCHEMA,
        "recipe": facts["recipe"],
        "complete": all(arm["status"] in ("ok", "failed") for arm in arms)
        and (again is None or again["status"] != "not run"),
        "harness": facts["harness"],
        "started": facts["started"],
        "workload": facts["workload"],
        "hardware": next(
            (one.conditions["hardware"] for one in measured),
            environment.hardware(machine, facts["device"]),
        ),
        "bandwidth": machine.get("bandwidth"),
        "arms": arms,
        "comparisons": [comparison_json(c) for c in compare_all(measured, allow, floor, costs)],
        "verification": [asdict(curve) for curve in costs],
        "bridges": [split_json(split) for split in splits(measured, allow, floor)],
        "quality": read_json(run.quality_file) if run.quality_file.exists() else None,
        "drift": drift,
        "audit": {
            "greedy": greedy_rows(run, measured, last),
            "distribution": distribution_rows(run),
        },
    }


def _arm_json(
    plan: Mapping[str, Any], status: Mapping[str, Any], phases: list[Measured]
) -> dict[str, Any]:
    return {
        "id": plan["id"],
        "backend": plan["backend"],
        "engine_version": status.get("engine", {}).get("version", plan["engine_version"]),
        "speculation": plan["speculation"],
        "draft_tokens": plan["draft_tokens"],
        "acceptance": plan["acceptance"],
        "status": status["status"],
        "reason": status["reason"],
        "startup_s": status.get("startup_s"),
        "step_bytes": status.get("step_bytes"),
        "patches": status.get("patches", []),
        "modes": [_mode_json(measured) for measured in phases],
    }


def _block_json(phase: Phase) -> dict[str, Any]:
    names = ("decode_tok_s", "acceptance_length")
    return {name: found.value for name, found in measure(phase, names).items()}


def _mode_json(measured: Measured) -> dict[str, Any]:
    record = measured.phase.record
    return {
        "mode": measured.mode,
        "concurrency": measured.concurrency,
        "requests": len(measured.phase.samples) + measured.failed,
        "failed": measured.failed,
        "problems": list(measured.problems),
        "warnings": list(measured.warnings),
        "metrics": {
            name: {key: value for key, value in asdict(m).items() if key != "reason" or value}
            for name, m in measure(measured.phase).items()
        },
        "speculation": speculation_json(measured.phase) if record else None,
        "by_context": by_context(measured.phase),
        "blocks": [_block_json(phase) for phase in measured.blocks],
        "conditions": dict(measured.conditions),
        "condition_sources": dict(measured.sources),
        "observed": measured.observed,
        "client": measured.client,
    }


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    ratio = comparison.ratio
    return {
        "a": comparison.a,
        "b": comparison.b,
        "mode": comparison.mode,
        "concurrency": comparison.concurrency,
        "kind": comparison.kind,
        "verdict": comparison.verdict,
        "reason": comparison.reason,
        "ratio": ratio.value if ratio else None,
        "interval": [ratio.low, ratio.high] if ratio else None,
        "pairs": ratio.pairs if ratio else 0,
        "throughput_ratio": comparison.throughput_ratio,
        "floor": comparison.floor,
        "floor_from": comparison.floor_from,
        "prompts_to_show_5_percent": comparison.prompts_to_show,
        "certificate": {
            "matched": comparison.certificate.matched,
            "differences": [asdict(d) for d in comparison.certificate.differences],
            "allowed": [asdict(d) for d in comparison.certificate.allowed],
        },
        "factors": dict(comparison.factors),
        "unsplit": comparison.unsplit,
    }
