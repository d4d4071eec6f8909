"""What `museorch audit` prints, and the run that it may be put into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.errors import InputError
from orchestrator.commands.audit import _measured, _table
from orchestrator.distribution.audit import Row
from orchestrator.distribution.fit import Fit, Power
from orchestrator.job import create, prepare
from orchestrator.rundir import read_json, write_json
from tests.recipes_for_tests import recipe_data, write_recipe


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        (lambda plans: plans[1].update(engine_version="0.9"), "llamacpp-dflash was llamacpp 0.9"),
        (lambda plans: plans[1].update(draft_tokens=2), "K 2; here it is .* K 7"),
        (lambda plans: plans[0]["target"].update(quantisation="q8_0"), "q8_0; here it is"),
        (lambda plans: plans.pop(), "llamacpp-dflash is not there; here it is"),
    ],
)
def test_an_audit_goes_into_a_run_of_the_same_arms_only(
    tmp_path: Path, how: Callable[[Any], Any], complaint: str
) -> None:
    job = prepare(str(write_recipe(tmp_path, recipe_data(tmp_path))))
    run = create(job, tmp_path / "run")
    assert _measured(run.path, job.recipe.name, job.planned).path == run.path
    with pytest.raises(InputError, match=f'is a run of "{job.recipe.name}", not of "other"'):
        _measured(run.path, "other", job.planned)
    plans = read_json(run.plan_file)
    how(plans)
    write_json(run.plan_file, plans)
    with pytest.raises(InputError, match=complaint):
        _measured(run.path, job.recipe.name, job.planned)


def test_the_table_shows_what_the_verdict_rests_on_in_80_columns() -> None:
    def row(arm: str, positions: str, verdict: str, p: float, forced: float | None) -> Row:
        fit = Fit(1234, 123_456, -0.25, 0.001, 0.02, 17, None)
        return Row(arm, "t0.6", positions, verdict, p, 0.04, fit, Power(forced, None))

    text = _table(
        [
            row("llamacpp-dflash-q4_k_m-simulated", "first token", "as asked", 0.12, 0.163),
            row("llamacpp-dflash-q4_k_m-simulated", "later tokens", "differs", 2.1e-12, None),
            row("vllm-base", "first token", "as asked", 1.0, 1.0),
        ]
    )
    head, *lines = text.splitlines()
    assert max(map(len, text.splitlines())) <= 80
    assert head.split()[-4:] == ["p", "impossible", "found", "from"]
    assert lines[0] == "llamacpp-dflash-q4_k_m-simulated"
    assert lines[1].split()[-4:] == ["-0.2500", "0.12", "17", "16.3%"]
    assert lines[2].split()[-5:] == ["123456", "-0.2500", "2.1e-12", "17", "-"]
    assert lines[3] == "vllm-base"
    assert {len(line) for line in (head, lines[1], lines[2], lines[4])} == {len(head)}
