"""result.json out of a run directory. Nothing else goes in, so a report can be made anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from backends.errors import EngineError
from orchestrator import cards, environment, margins, reported, sample
from orchestrator.audit import Margin, audit_greedy
from orchestrator.blocks import Measured, join, join_status
from orchestrator.bridge import split_json, splits
from orchestrator.by_context import by_context
from orchestrator.certify import certify, kind_of
from orchestrator.client_floor import client_json
from orchestrator.compare import Comparison, compare, decode_ratio
from orchestrator.counters import Counters, delta, spec_record
from orchestrator.energy import Power, power
from orchestrator.metrics import Phase, measure
from orchestrator.noise import block_floor, drift_floor
from orchestrator.plan import REAL
from orchestrator.roofline import roof
from orchestrator.rundir import BOOKEND, RunDirectory, block_turns, read_json
from orchestrator.sample import Sample
from orchestrator.speculation import speculation_json
from orchestrator.validity import problems, warnings
from orchestrator.verification import Curve, curves, step_time_split

SCHEMA = 1


def build(run: RunDirectory) -> dict[str, Any]:
    """The whole result, recomputed from the facts in the run directory."""
    facts = read_json(run.run_file)
    machine = read_json(run.environment_file)
    plans = {plan["id"]: plan for plan in read_json(run.plan_file)}
    arms: list[dict[str, Any]] = []
    measured: list[Measured] = []
    for name in facts["arms"]:
        turns = [
            _arm(run, facts, machine, plans[name], turn)
            for turn in block_turns(facts.get("blocks", 1))
        ]
        status = join_status([status for status, _ in turns])
        phases = join([phases for _, phases in turns])
        arms.append(_arm_json(plans[name], status, phases))
        measured += phases
    drift = _drift(run, facts, machine, plans, measured)
    allow, floor = facts.get("allow", []), _floor(drift, facts.get("blocks", 1))
    costs = curves(measured)
    states = {arm["id"]: arm["status"] for arm in arms}
    bookend = facts["bookend"] and len(arms) > 1
    complete = all(state in ("ok", "failed") for state in states.values()) and (
        not bookend
        or states[facts["reference"]] == "failed"
        or (run.turn(facts["reference"], BOOKEND) / "status.json").exists()
    )
    return {
        "schema": SCHEMA,
        "recipe": facts["recipe"],
        "complete": complete,
        "harness": facts["harness"],
        "started": facts["started"],
        "workload": facts["workload"],
        "hardware": next(
            (one.conditions["hardware"] for one in measured),
            environment.hardware(machine, facts["device"]),
        ),
        "bandwidth": machine.get("bandwidth"),
        "arms": arms,
        "comparisons": [comparison_json(c) for c in _compare_all(measured, allow, floor, costs)],
        "verification": [asdict(curve) for curve in costs],
        "bridges": [split_json(split) for split in splits(measured, allow, floor)],
        "quality": read_json(run.quality_file) if run.quality_file.exists() else None,
        "drift": drift,
        "audit": {"greedy": _audit(run, facts, measured), "distribution": _distribution(run)},
    }


def _arm(
    run: RunDirectory,
    facts: Mapping[str, Any],
    machine: dict[str, Any],
    plan: Mapping[str, Any],
    repeat: int,
) -> tuple[dict[str, Any], list[Measured]]:
    folder = run.turn(plan["id"], repeat)
    if not (folder / "status.json").exists():
        word = "interrupted" if folder.exists() else "not run"
        reason = "museorch ended during this arm" if folder.exists() else "the run ended before it"
        status: dict[str, Any] = {"status": word, "reason": reason}
    else:
        status = read_json(folder / "status.json")
    samples = _samples(folder / "samples.jsonl")
    told = reported.told(plan, status.get("facts", {}), folder / "server.log")
    counters = read_json(folder / "counters.json") if (folder / "counters.json").exists() else []
    phases = []
    for counted in counters:
        key = (counted["mode"], counted["concurrency"])
        mine = [s for s in samples if (s.mode, s.concurrency) == key]
        watts = power((counted.get("observed") or {}).get("gpu", {}), folder / "gpu.csv", mine)
        phases.append(_measured(facts, machine, plan, status, told, counted, mine, watts))
    return status, phases


def _samples(path: Path) -> list[Sample]:
    return sample.read(path) if path.exists() else []


def _measured(
    facts: Mapping[str, Any],
    machine: dict[str, Any],
    plan: Mapping[str, Any],
    status: Mapping[str, Any],
    told: Mapping[str, Any],
    counted: Mapping[str, Any],
    samples: list[Sample],
    watts: Power | str,
) -> Measured:
    good = [s for s in samples if s.error is None]
    record, contradiction = None, None
    if plan["speculation"] != "none":
        try:
            record = spec_record(
                delta(_counters(counted["before"]), _counters(counted["after"])),
                [s.server for s in good],
                counted["draft_tokens"],
            )
        except EngineError as error:
            contradiction = error.what
    k, bound = counted["draft_tokens"], roof(machine, status)
    phase = Phase(good, record, plan["speculation"], k, watts, bound)
    mode = next(m for m in facts["workload"]["modes"] if m["name"] == counted["mode"])
    workload = {**facts["workload"], "stop": mode.get("stop") or facts["workload"]["stop"]}
    workload["count"] = counted.get("requests", workload["count"])
    observed = counted.get("observed")
    client = client_json(counted.get("client"), samples)
    found = problems(phase, samples, workload, observed, plan.get("expected_length"), client)
    if contradiction is not None:
        found = (contradiction, *found)
    asked = {**facts["serve"], **plan["conditions"]}
    asked["context_per_slot"] = asked["context_length"]
    settled, sources, contradictions = reported.settle(asked, told)
    found = (*found, *contradictions)
    doubts = warnings(observed, status.get("others_on_gpu", {}))
    conditions = _conditions({**facts, "workload": workload}, machine, plan, status, counted, mode)
    return Measured(
        plan["id"],
        counted["mode"],
        counted["concurrency"],
        phase,
        len(samples) - len(good),
        found,
        doubts,
        observed,
        {**conditions, **settled},
        client=client,
        sources=sources,
    )


def _conditions(
    facts: Mapping[str, Any],
    machine: dict[str, Any],
    plan: Mapping[str, Any],
    status: Mapping[str, Any],
    counted: Mapping[str, Any],
    mode: Mapping[str, Any],
) -> dict[str, Any]:
    """Every field of certify.CONDITIONS, as gathered; None is unknown."""
    drafter, serve, workload = plan["drafter"], facts["serve"], facts["workload"]
    acceptance = plan.get("acceptance", REAL)
    return {
        "backend": plan["backend"],
        "speculation": plan["speculation"],
        "hardware": environment.hardware(machine, facts["device"], status.get("gpus")),
        "clocks": _clocks(counted.get("observed")),
        "gpu_processes": _others(status.get("others_on_gpu", {})),
        "engine": f"{plan['backend']} {status.get('engine', plan).get('version', 'unknown')}",
        "patches": [patch["id"] for patch in status.get("patches", [])],
        "weights": plan["target"]["identity"],
        "weight_files": status.get("weight_files"),
        "quantisation": plan["target"]["quantisation"],
        "drafter": f"{drafter['weights']['identity']} {drafter['weights']['quantisation']}"
        if drafter
        else "none",
        "drafter_files": status.get("drafter_files"),
        "draft_tokens": counted["draft_tokens"] if drafter else "none",
        "verification": "simulated"
        if acceptance.startswith("simulated")
        else counted["verification"],
        "acceptance": acceptance,
        "concurrency": counted["concurrency"],
        "threads": serve["threads"] if serve["threads"] is not None else "engine default",
        **plan["conditions"],
        "prompts": facts["prompts"]["sha256"],
        "sampling": f"T {mode['temperature']:g}, top_p {mode['top_p']:g}, top_k {mode['top_k']}, "
        f"seed {workload['seed']}",
        "stop": f"{workload['stop']}, {workload['output_tokens']} tokens, "
        f"end ids {facts['end_token_ids']}",
        "harness": facts["harness"],
    }


def _clocks(observed: Mapping[str, Any] | None) -> float | str | None:
    """MHz; words where no GPU is in use; None where one is and was not seen."""
    seen = observed["gpu"] if observed is not None else {}
    if "sm_mhz" in seen:
        return float(seen["sm_mhz"]["median"])
    return cards.NO_GPU if seen.get("reason") == cards.NO_GPU else None


def _others(found: Mapping[str, Any]) -> str | None:
    processes = found.get("processes")
    if processes is None:
        return cards.NO_GPU if found.get("reason") == cards.NO_GPU else None
    return f"{len(processes)}" if processes else "none"


def _counters(data: Mapping[str, Any]) -> Counters:
    position = data["per_position"]
    return Counters(**{**data, "per_position": tuple(position) if position is not None else None})


def _pairs(measured: list[Measured]) -> Iterator[tuple[Measured, Measured]]:
    """(a, b) worth comparing: kinds of drafting in one engine on one quantisation, else engines
    and quantisations with the same kind of drafting."""
    for b, a in itertools.combinations(measured, 2):
        if (a.mode, a.concurrency) != (b.mode, b.concurrency):
            continue
        one, two = a.conditions, b.conditions
        drafting = one["speculation"] != two["speculation"]
        if drafting and (one["backend"], one["quantisation"]) != (
            two["backend"],
            two["quantisation"],
        ):
            continue
        yield (b, a) if one["speculation"] == "none" and two["speculation"] != "none" else (a, b)


def _floor(drift: list[dict[str, Any]], blocks: int) -> Callable[[Measured], float]:
    """The relative change in a phase that counts as no difference, by the drift there."""

    def floor(one: Measured) -> float:
        # Of a steady drift, an arm's place within the blocks is all that is left.
        return drift_floor(drift, one.mode, one.concurrency) / blocks

    return floor


def _compare_all(
    measured: list[Measured],
    allow: Collection[str],
    floor: Callable[[Measured], float],
    costs: Sequence[Curve],
) -> Iterator[Comparison]:
    for a, b in sorted(_pairs(measured), key=lambda pair: (pair[0].concurrency, pair[0].mode)):
        kind = kind_of(a.conditions, b.conditions)
        found = [f"{x.arm}: {problem}" for x in (a, b) for problem in x.problems]
        compared = compare(
            a.arm,
            b.arm,
            (a.phase, b.phase),
            mode=a.mode,
            concurrency=a.concurrency,
            kind=kind,
            certificate=certify(a.conditions, b.conditions, kind, allow),
            problems=found,
            floors={"drift": floor(a), "blocks": block_floor(a, b)},
        )
        if compared.ratio is not None:
            split, unsplit = step_time_split(a, b, costs)
            factors = {**compared.factors, **split}
            compared = replace(compared, factors=factors, unsplit=unsplit)
        yield compared


def _drift(
    run: RunDirectory,
    facts: Mapping[str, Any],
    machine: dict[str, Any],
    plans: Mapping[str, Any],
    measured: list[Measured],
) -> list[dict[str, Any]]:
    """The reference arm's second turn over its first: what the machine itself changed."""
    reference = facts["reference"]
    _, again = _arm(run, facts, machine, plans[reference], BOOKEND)
    rows = []
    for late in again:
        early = next(
            (
                m
                for m in measured
                if (m.arm, m.mode, m.concurrency) == (reference, late.mode, late.concurrency)
            ),
            None,
        )
        ratio = decode_ratio(late.phase.samples, early.first.samples) if early else None
        if ratio is not None:
            rows.append(
                {
                    "arm": reference,
                    "mode": late.mode,
                    "concurrency": late.concurrency,
                    "ratio": ratio.value,
                    "interval": [ratio.low, ratio.high],
                    "pairs": ratio.pairs,
                    "shown": not ratio.low <= 1 <= ratio.high,
                }
            )
    return rows


def _distribution(run: RunDirectory) -> list[Any]:
    path = run.distribution_file
    return list(read_json(path)["rows"]) if path.exists() else []


def _audit(
    run: RunDirectory, facts: Mapping[str, Any], measured: list[Measured]
) -> list[dict[str, Any]]:
    """Each drafter against its plain arm, engines against each other, plain against itself."""
    greedy = {
        (m.arm, m.mode, m.concurrency): m
        for m in measured
        if m.conditions["sampling"].startswith("T 0,") and m.conditions["acceptance"] == REAL
    }
    rows = []

    def near(*turns: tuple[str, int]) -> partial[Margin]:
        return partial(margins.margin, [margins.read(run.turn(*turn), turn[0]) for turn in turns])

    for a, b in _pairs(list(greedy.values())):
        margin = near((b.arm, 1), (a.arm, 1))
        audit = audit_greedy(a.arm, b.arm, a.concurrency, a.first.samples, b.first.samples, margin)
        rows.append({"mode": a.mode, **asdict(audit)})
    again = _samples(run.turn(facts["reference"], BOOKEND) / "samples.jsonl")
    for (arm, mode, concurrency), first in greedy.items():
        mine = [
            s for s in again if (s.mode, s.concurrency) == (mode, concurrency) and s.error is None
        ]
        if arm == facts["reference"] and mine:
            margin = near((arm, BOOKEND))
            left = first.first.samples
            audit = audit_greedy(arm, f"{arm} again", concurrency, left, mine, margin)
            rows.append({"mode": mode, **asdict(audit)})
    return rows


def _arm_json(
    plan: Mapping[str, Any], status: Mapping[str, Any], phases: list[Measured]
) -> dict[str, Any]:
    return {
        "id": plan["id"],
        "backend": plan["backend"],
        "engine_version": status.get("engine", {}).get("version", plan["engine_version"]),
        "speculation": plan["speculation"],
        "draft_tokens": plan["draft_tokens"],
        "acceptance": plan.get("acceptance", REAL),
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
