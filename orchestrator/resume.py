"""May an unfinished run be finished? Only by what would have measured the same from its start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backends.errors import InputError
from orchestrator.measuring import environment
from orchestrator.rundir import RunDirectory, read_json

OF_ONE_START = frozenset({"schema", "path", "command", "started"})
"""Facts of a run that may be others when it is taken up again."""
OF_THE_MOMENT = frozenset({"installed", "findings"})
"""Of a plan, likewise."""


def require_same(
    run: RunDirectory,
    facts: Mapping[str, Any],
    plans: Sequence[Mapping[str, Any]],
    machine: dict[str, Any],
) -> None:
    """Raise InputError for the first thing in which the run and its continuation differ.

    `facts`, `plans` and `machine` are what would be written to run.json, plan.json and
    environment.json now.
    """
    before = read_json(run.run_file)
    _compare(run, before, facts, OF_ONE_START, "")
    was = {plan["id"]: plan for plan in read_json(run.plan_file)}
    for plan in plans:
        _compare(run, was.get(plan["id"], {}), plan, OF_THE_MOMENT, f" of {plan['id']}")
    hardware = [
        environment.hardware(one, facts["device"])
        for one in (read_json(run.environment_file), machine)
    ]
    if hardware[0] != hardware[1]:
        raise _differs(run, f"machine ({hardware[0]}; here {hardware[1]})")


def _compare(
    run: RunDirectory,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    ignored: frozenset[str],
    of: str,
) -> None:
    now = json.loads(json.dumps(now))
    for key in (*now, *before):
        then, here = before.get(key), now.get(key)
        if key not in ignored and then != here:
            short = all(isinstance(value, str | int | None) for value in (then, here))
            raise _differs(run, f"{key}{of}" + (f" ({then}; here {here})" if short else ""))


def _differs(run: RunDirectory, what: str) -> InputError:
    return InputError(
        f"differs from this start in {what}; results of both cannot be mixed.",
        where=str(run.run_file),
        fix="Start a new run.",
    )
