"""Gates: what makes the numbers of a phase no speed result, and what only casts doubt on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backends.base import SpecRecord
from orchestrator.load.client_floor import client_problems
from orchestrator.load.sample import Sample
from orchestrator.measuring.gpu import FAULTS
from orchestrator.measuring.metrics import Phase

MIN_ACCEPTANCE_LENGTH = 1.1
MIN_FIRST_POSITION = 0.1
"""Below either a drafter costs time and gives nothing: it is broken or fed wrongly. Heads that
work accept 0.4 to 0.85 at the first position."""
SIMULATED_TOLERANCE = 0.15
"""A simulated length falls a little short where replies end within a step."""
FOREIGN_SHARE = 0.1
"""Of the machine's hardware threads. More kept busy by others is worth a warning."""


def problems(
    phase: Phase,
    samples: Sequence[Sample],
    workload: Mapping[str, Any],
    observed: Mapping[str, Any] | None,
    simulated_length: float | None = None,
    client: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Reasons, in words, why this phase must not be used for a comparison; empty when fine.

    `simulated_length` is the acceptance length the engine was told to simulate, `client` what
    client_floor.client_json says.
    """
    found = _another_server(observed["server"]) if observed is not None else []
    failed = [sample for sample in samples if sample.error is not None]
    if failed:
        found.append(f"{len(failed)} of {len(samples)} requests failed: {failed[0].error}")
    different = len({sample.request_id for sample in samples})
    if different < workload["count"]:
        found.append(f"only {different} of {workload['count']} requests were sent")
    if different < len(samples):
        found.append(f"{len(samples) - different} requests were counted twice")
    backwards = sum(not _in_order(sample) for sample in samples)
    if backwards:
        found.append(f"the times of {backwards} requests run backwards")
    empty = sum(not sample.token_ids for sample in phase.samples)
    if empty:
        found.append(f"{empty} replies held no token")
    wanted = workload["output_tokens"]
    if workload["stop"] == "fixed":
        off = sum(len(sample.token_ids) != wanted for sample in phase.samples)
        if off:
            found.append(f"{off} replies do not have the fixed length of {wanted} tokens")
    miscounted = sum(
        sample.server_completion_tokens is not None
        and sample.server_completion_tokens != len(sample.token_ids)
        for sample in phase.samples
    )
    if miscounted:
        found.append(f"{miscounted} replies hold another number of tokens than the server counted")
    found += _drafting(phase, simulated_length)
    found += client_problems(client, phase.samples)
    return tuple(found)


def _in_order(sample: Sample) -> bool:
    times = [sample.t_send_ns, *(at for at, _ in sample.chunks), sample.t_end_ns]
    return times == sorted(times)


def _drafting(phase: Phase, simulated_length: float | None) -> list[str]:
    if phase.speculation == "none":
        return []
    if phase.contradiction is not None:
        return [phase.contradiction]
    record = phase.record
    if record is not None and record.steps and record.drafted and simulated_length is not None:
        tau = 1 + record.accepted / record.steps
        off = abs(tau / simulated_length - 1)
        told = f"acceptance length {tau:.2f} came of a simulated {simulated_length:.2f}"
        return [told] if off > SIMULATED_TOLERANCE else []
    problem = drafting_problem(record)
    return [problem] if problem is not None else []


def drafting_problem(record: SpecRecord | None) -> str | None:
    """Why a drafter that was on is of no use; None where its drafts are accepted."""
    if record is None:
        return "the engine reported nothing about speculation, so it may not have run"
    if record.steps == 0 or record.drafted == 0:
        return "the drafter was on, but nothing was drafted"
    tau = 1 + record.accepted / record.steps
    if tau < MIN_ACCEPTANCE_LENGTH:
        return (
            f"the drafter is hardly ever accepted (acceptance length {tau:.2f}): "
            "a fault, not a speed"
        )
    positions = record.per_position
    if positions and positions[0] / record.steps < MIN_FIRST_POSITION:
        share = positions[0] / record.steps
        return f"only {share:.0%} of first drafts are accepted: a fault, not a speed"
    return None


def _another_server(server: Mapping[str, Any]) -> list[str]:
    before, after = server["before"], server["after"]
    if (before["pid"], before["started"]) != (after["pid"], after["started"]):
        return ["the server is not the process that it was before the phase"]
    if not (before["listens"] and after["listens"]):
        return ["another process listened on the server's port"]
    return []


def warnings(observed: Mapping[str, Any] | None, others: Mapping[str, Any]) -> tuple[str, ...]:
    """What may have disturbed a phase. A comparison stands, since both arms may have suffered."""
    found: list[str] = []
    if others.get("processes"):
        found.append(f"on the GPU before the arm started: {'; '.join(others['processes'])}")
    if observed is None:
        return tuple(found)
    load = observed["load"]
    foreign, threads = load["foreign_threads"], load["threads"]
    if foreign is not None and foreign > FOREIGN_SHARE * threads:
        found.append(f"other processes kept {foreign:.1f} of {threads} hardware threads busy")
    if slowed := FAULTS.intersection(observed["gpu"].get("slowdowns", ())):
        found.append(f"the GPU's clocks were lowered: {', '.join(sorted(slowed))}")
    return tuple(found)
