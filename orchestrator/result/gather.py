"""What one turn of an arm left in the run directory, as measured phases and their conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.errors import EngineError, InputError
from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.certify import AT_POWER_LIMIT
from orchestrator.load import sample
from orchestrator.load.client_floor import client_json
from orchestrator.load.sample import Sample
from orchestrator.measuring import environment, gpu
from orchestrator.measuring.counters import Counters, agree, delta, spec_record
from orchestrator.measuring.energy import power
from orchestrator.measuring.metrics import Phase
from orchestrator.measuring.roofline import roof
from orchestrator.measuring.validity import problems, warnings
from orchestrator.planning import cards
from orchestrator.rundir import RunDirectory, read_json
from orchestrator.serving import reported

COUNTERS = "counters.json"


@dataclass(frozen=True)
class Turn:
    """What one start of one arm left, and what holds for the whole run."""

    folder: Path
    facts: Mapping[str, Any]
    """run.json, as `machine` is environment.json and `plan` the arm's part of plan.json."""
    machine: dict[str, Any]
    plan: Mapping[str, Any]
    status: Mapping[str, Any]


def turn_of(
    run: RunDirectory,
    facts: Mapping[str, Any],
    machine: dict[str, Any],
    plan: Mapping[str, Any],
    repeat: int,
) -> tuple[dict[str, Any], list[Measured]]:
    """Its status and its phases."""
    folder = run.turn(plan["id"], repeat)
    if not (folder / "status.json").exists():
        word = "interrupted" if folder.exists() else "not run"
        reason = "museorch ended during this arm" if folder.exists() else "the run ended before it"
        status: dict[str, Any] = {"status": word, "reason": reason}
    else:
        status = read_json(folder / "status.json")
    turn = Turn(folder, facts, machine, plan, status)
    counters = folder / COUNTERS
    rows = read_json(counters) if counters.exists() else []
    modes = facts["workload"]["modes"]
    if status["status"] == "ok" and len(rows) < len(modes) * len(facts["workload"]["concurrency"]):
        raise InputError("lacks phases, though the arm ended well.", where=str(counters))
    samples = samples_of(folder / "samples.jsonl")
    if {(one.arm, one.repeat) for one in samples} - {(plan["id"], repeat)}:
        raise InputError("holds requests of another arm.", where=str(folder / "samples.jsonl"))
    told = reported.told(plan, status.get("facts", {}), folder / "server.log")
    phases = []
    for counted in rows:
        mode = next((m for m in modes if m["name"] == counted["mode"]), None)
        if mode is None:
            what = f'has a mode "{counted["mode"]}" that is not in run.json.'
            raise InputError(what, where=str(counters))
        mode = {**mode, "stop": mode.get("stop") or facts["workload"]["stop"]}
        key = (counted["mode"], counted["concurrency"])
        mine = [s for s in samples if (s.mode, s.concurrency) == key]
        phases.append(_measured(turn, mode, told, counted, mine))
    return status, phases


def samples_of(path: Path) -> list[Sample]:
    return sample.read(path) if path.exists() else []


def _measured(
    turn: Turn,
    mode: Mapping[str, Any],
    told: Mapping[str, Any],
    counted: Mapping[str, Any],
    samples: list[Sample],
) -> Measured:
    """`told` is what the server reported of its settings, `counted` a row of counters.json."""
    facts, plan, status = turn.facts, turn.plan, turn.status
    good = [s for s in samples if s.error is None]
    observed = counted.get("observed")
    record, contradiction = None, None
    if plan["speculation"] != "none":
        answers = [s.server for s in good]
        try:
            grown = delta(*(_counters(turn, counted, when) for when in ("before", "after")))
            record = spec_record(grown, answers, counted["draft_tokens"])
            if record is not None:
                agree(record, answers)
        except EngineError as error:
            record, contradiction = None, error.what
    phase = Phase(
        good,
        record,
        plan["speculation"],
        counted["draft_tokens"],
        power((observed or {}).get("gpu", {}), turn.folder / "gpu.csv", samples),
        roof(turn.machine, status),
        contradiction,
    )
    wanted = {**facts["workload"], "stop": mode["stop"], "count": counted["requests"]}
    client = client_json(counted.get("client"), samples)
    found = problems(phase, samples, wanted, observed, plan["expected_length"], client)
    asked = {**facts["serve"], **plan["conditions"]}
    asked["context_per_slot"] = asked["context_length"]
    settled, sources, contradictions = reported.settle(asked, told)
    return Measured(
        plan["id"],
        counted["mode"],
        counted["concurrency"],
        phase,
        len(samples) - len(good),
        (*found, *contradictions),
        warnings(observed, status.get("others_on_gpu", {})),
        observed,
        {**_conditions(turn, mode, counted), **settled},
        client=client,
        sources=sources,
    )


def _conditions(turn: Turn, mode: Mapping[str, Any], counted: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of certify.CONDITIONS, as gathered; None is unknown."""
    facts, plan, status = turn.facts, turn.plan, turn.status
    drafter, serve, workload = plan["drafter"], facts["serve"], facts["workload"]
    acceptance = plan["acceptance"]
    version = status.get("engine", {}).get("version", plan["engine_version"])
    return {
        "backend": plan["backend"],
        "speculation": plan["speculation"],
        "hardware": environment.hardware(turn.machine, facts["device"], status.get("gpus")),
        "clocks": _clocks(counted.get("observed")),
        "gpu_processes": _others(status.get("others_on_gpu", {})),
        "engine": f"{plan['backend']} {version}" if version is not None else None,
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
        "stop": f"{mode['stop']}, {workload['output_tokens']} tokens, "
        f"end ids {facts['end_token_ids']}",
        "harness": facts["harness"],
    }


def _clocks(observed: Mapping[str, Any] | None) -> float | str | None:
    """MHz; words where power limits it or no GPU is in use; None where one is and was not seen."""
    seen = observed["gpu"] if observed is not None else {}
    if "sm_mhz" in seen:
        median = float(seen["sm_mhz"]["median"])
        limited = gpu.POWER_CAP in seen.get("slowdowns", ())
        return f"{median:.0f}{AT_POWER_LIMIT}" if limited else median
    return cards.NO_GPU if seen.get("reason") == cards.NO_GPU else None


def _others(found: Mapping[str, Any]) -> str | None:
    processes = found.get("processes")
    if processes is None:
        return cards.NO_GPU if found.get("reason") == cards.NO_GPU else None
    return f"{len(processes)}" if processes else "none"


def _counters(turn: Turn, counted: Mapping[str, Any], when: str) -> Counters:
    """`when` is before or after."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Counters).validate_python(counted[when])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, (when, *first["loc"])))
        where = str(turn.folder / COUNTERS)
        raise InputError(f"{place}: {first['msg']}.", where=where) from None
