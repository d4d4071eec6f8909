"""Several turns of each arm, interleaved: their order, and what they come to together."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import orchestrator
from backends.base import SpecRecord
from orchestrator.comparing.blocks import Measured, join, join_status
from orchestrator.comparing.certify import CONDITIONS
from orchestrator.comparing.compare import decode_ratio
from orchestrator.job import prepare
from orchestrator.load.sample import Sample, read
from orchestrator.measuring.metrics import measure
from orchestrator.rundir import block_turns, read_json
from tests.orchestrator.measured import drafted, plain, sample, timed
from tests.recipes_for_tests import recipe_data, write_recipe

SCHEMA = read_json(Path(orchestrator.__file__).parent / "schemas" / "result.schema.json")


def block(turn: int, seconds: list[float], **changes: Any) -> Measured:
    samples = [replace(one, repeat=turn) for one in timed(seconds)]
    phase = drafted(samples, 100, (60, 30))
    base = Measured("a", "greedy", 1, phase, 0, (), (), None, {}, (phase,))
    return replace(base, **changes)


def test_turns_are_interleaved_and_the_reference_is_first_and_last(tmp_path: Path) -> None:
    data = recipe_data(tmp_path, order={"blocks": 3})
    turns = [(item.arm.id, turn) for item, turn in prepare(str(write_recipe(tmp_path, data))).turns]
    base, drafter = "llamacpp-base", "llamacpp-dflash"
    assert turns == [
        *[(base, 1), (drafter, 1)],
        *[(base, 3), (drafter, 3)],
        *[(base, 4), (drafter, 4)],
        (base, 2),
    ]
    assert block_turns(1) == [1]


def test_counters_samples_and_failures_add_up() -> None:
    (found,) = join([[block(1, [1.0] * 6, failed=1)], [block(3, [3.0] * 6)]])
    assert found.phase.record == SpecRecord(200, 400, 180, (120, 60), "counters")
    assert len(found.phase.samples) == 12
    assert found.failed == 1
    assert found.problems == ()
    assert measure(found.phase)["decode_tok_s"].value == pytest.approx(50)
    assert [measure(phase)["decode_tok_s"].value for phase in found.blocks] == [
        pytest.approx(100),
        pytest.approx(100 / 3),
    ]


def test_a_block_without_counters_leaves_none_to_the_pool() -> None:
    told = block(1, [1.0] * 6)
    silent = replace(told.phase, record=None, contradiction="5 of 4")
    (found,) = join([[told], [block(3, [1.0] * 6, phase=silent)]])
    assert found.phase.record is None
    assert measure(found.phase)["step_time_ms"].reason == "5 of 4"


def test_throughput_does_not_count_the_time_between_blocks() -> None:
    later = [
        replace(one, repeat=3, t_send_ns=10**12, t_end_ns=10**12 + one.t_end_ns)
        for one in timed([1.0])
    ]
    once = measure(plain(timed([1.0])))["output_tok_s"].value
    assert measure(plain([*timed([1.0]), *later]))["output_tok_s"].value == pytest.approx(once)


def test_a_missing_block_or_a_changed_condition_is_a_problem() -> None:
    (found,) = join([[block(1, [1.0])], []])
    assert found.problems == ("only 1 of 2 blocks were measured",)
    before = {name: f"hf {name}" for name in CONDITIONS}
    after = {**before, "weight_files": "hf other", "kv_dtype": None}
    (found,) = join([[block(1, [1.0], conditions=before)], [block(3, [1.0], conditions=after)]])
    assert found.problems == ("weight_files changed from one block to another",)


def test_problems_of_every_block_are_kept_once() -> None:
    blocks = [[block(1, [1.0], problems=("x",))], [block(3, [1.0], problems=("x", "y"))]]
    assert join(blocks)[0].problems == ("x", "y")


def test_a_prompt_sent_in_several_blocks_counts_once() -> None:
    def twice(first: float, second: float) -> list[Sample]:
        one = timed([first] * 6)
        return one + [replace(s, repeat=3) for s in timed([second] * 6)]

    ratio = decode_ratio(twice(1.0, 2.0), twice(2.0, 4.0))
    assert ratio is not None
    assert (ratio.pairs, ratio.value) == (6, 2.0)
    # A prompt timed once on one side and twice on the other is no pair.
    short = decode_ratio(twice(1.0, 2.0), twice(2.0, 4.0)[:-1])
    assert short is not None
    assert short.pairs == 5


def test_status_of_an_arm_is_the_worst_of_its_blocks() -> None:
    ok = {"status": "ok", "reason": None, "startup_s": 1.0}
    bad = {"status": "failed", "reason": "out of memory"}
    assert join_status([ok]) == ok
    assert join_status([ok, bad]) == ok | {
        "status": "failed",
        "reason": "block 2: out of memory",
    }
    assert join_status([bad]) == bad


def test_blocks_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    recipe = write_recipe(tmp_path, recipe_data(tmp_path, order={"blocks": 2}))
    command = [sys.executable, "-m", "orchestrator.cli", "compare", str(recipe), "--json"]
    subprocess.run([*command, "--out", str(out)], check=True, capture_output=True)
    result = read_json(out / "result.json")
    jsonschema.validate(result, SCHEMA)
    assert result["complete"]
    for arm in result["arms"]:
        (mode,) = arm["modes"]
        assert mode["requests"] == 12
        assert len(mode["blocks"]) == 2
        assert mode["problems"] == []
    (row,) = result["comparisons"]
    assert row["pairs"] == 6
    drift = result["drift"][0]["ratio"]
    rates = [
        [block["decode_tok_s"] for block in arm["modes"][0]["blocks"]] for arm in result["arms"]
    ]
    apart = (rates[0][0] / rates[1][0]) / (rates[0][1] / rates[1][1])
    floors = {
        "least": 0.01,
        "drift": (max(drift, 1 / drift) - 1) / 2,
        "blocks": max(apart, 1 / apart) - 1,  # two standard errors of two values
    }
    assert row["floor"] == pytest.approx(max(floors.values()))
    assert floors[row["floor_from"]] == max(floors.values())
    # Outputs are compared once, not once for each pair of blocks.
    assert [row["prompts"] for row in result["audit"]["greedy"]] == [6, 6]
    begun = {
        (arm, turn): read(out / "arms" / f"llamacpp-{arm}" / turn / "samples.jsonl")[0].t_send_ns
        for arm, turn in (("base", "1"), ("dflash", "1"), ("base", "3"), ("dflash", "3"))
    }
    assert list(begun.values()) == sorted(begun.values())


def test_a_reply_of_one_token_has_no_rate_and_is_no_pair() -> None:
    left = [*timed([1.0] * 5), sample("untimed", 1)]
    ratio = decode_ratio(left, [*timed([2.0] * 5), sample("untimed", 1)])
    assert ratio is not None
    assert ratio.pairs == 5
