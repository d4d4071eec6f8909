"""Drift and certificate, out of run directories whose facts are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.result.build import build
from orchestrator.rundir import read_json, write_json
from tests.orchestrator.report.synthetic import (
    DFLASH,
    DSPARK,
    MODES,
    OTHER_QUANT,
    PLAIN,
    write_run,
)

Change = Callable[[Any], Any]


def pair(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """DSpark against DFlash, greedy."""
    found: Mapping[str, Any] = next(
        row for row in result["comparisons"] if (row["mode"], row["b"]) == ("greedy", DFLASH.id)
    )
    return found


@pytest.mark.parametrize("blocks", [1, 2])
def test_drift_is_the_last_turn_over_the_first_and_sets_the_floor(
    tmp_path: Path, blocks: int
) -> None:
    result = build(write_run(tmp_path / "run", slower=1.05, blocks=blocks))
    assert [(row["arm"], row["mode"]) for row in result["drift"]] == [
        ("llamacpp-base", "greedy"),
        ("llamacpp-base", "temperature"),
    ]
    for row in result["drift"]:
        assert row["ratio"] == pytest.approx(1 / 1.05)
        assert row["shown"]
    assert result["comparisons"]
    for row in result["comparisons"]:
        assert row["floor"] == pytest.approx(0.05 / blocks)
        assert row["floor_from"] == "drift"


def test_a_run_in_one_mode_at_another_temperature(tmp_path: Path) -> None:
    modes = [{**MODES[1], "name": "cool", "temperature": 0.6}]
    result = build(write_run(tmp_path / "run", modes=modes))
    assert result["audit"]["greedy"] == []
    assert {row["mode"] for row in result["comparisons"]} == {"cool"}
    for arm in result["arms"]:
        (mode,) = arm["modes"]
        assert mode["conditions"]["sampling"] == "T 0.6, top_p 0.95, top_k 64, seed 1"


@pytest.mark.parametrize("prompts", [("one",), ("same",) * 12])
def test_too_few_different_prompts_give_no_ratio(tmp_path: Path, prompts: tuple[str, ...]) -> None:
    run = write_run(tmp_path / "run", prompts=prompts)
    for path in run.path.glob("arms/*/*/samples.jsonl"):
        text = path.read_text(encoding="utf-8")
        path.write_text(_one_seed(text), encoding="utf-8")
    result = build(run)
    assert result["drift"] == []
    for row in result["comparisons"]:
        assert (row["verdict"], row["ratio"]) == ("refused", None)
        assert row["reason"] == "fewer than 5 prompts with timings on both sides"


def test_failed_requests_are_counted_and_not_timed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (DFLASH, DSPARK))
    path = run.turn(DSPARK.id, 1) / "samples.jsonl"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"error":null', '"error":"cut off"', 2), encoding="utf-8")
    greedy = build(run)["arms"][1]["modes"][0]
    assert (greedy["requests"], greedy["failed"]) == (12, 2)
    assert greedy["problems"][0] == "2 of 12 requests failed: cut off"
    for name in ("decode_tok_s", "ttft_ms", "output_tok_s"):
        assert greedy["metrics"][name]["n"] == 10
    # The counters hold the steps of all twelve, so a step of the ten has no time.
    assert greedy["metrics"]["step_time_ms"]["value"] is None


def _one_seed(text: str) -> str:
    return "".join(
        line.replace(f'"seed":{number % 12}', '"seed":0') + "\n"
        for number, line in enumerate(text.splitlines())
    )


def drafter(plans: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of plan.json that is DSpark's."""
    return next(plan for plan in plans if plan["id"] == DSPARK.id)


def status(**changes: Any) -> tuple[str, Change]:
    return "status.json", lambda data: data.update(changes)


def counters(**changes: Any) -> tuple[str, Change]:
    return "counters.json", lambda rows: [row.update(changes) for row in rows]


def plan(how: Change) -> tuple[str, Change]:
    return "plan.json", lambda plans: how(drafter(plans))


def observed(**gpu: Any) -> tuple[str, Change]:
    return "counters.json", lambda rows: [row["observed"].update(gpu=gpu) for row in rows]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("clocks", observed(sm_mhz={"median": 1980.0})),
        ("clocks", observed(sm_mhz={"median": 1500.0}, slowdowns=["power cap"])),
        ("clocks", observed(reason="nvidia-smi failed")),
        ("gpu_processes", status(others_on_gpu={"processes": ["41, python, 900"]})),
        ("engine", status(engine={"backend": "llamacpp", "version": "1.3"})),
        ("patches", status(patches=[])),
        ("weights", plan(lambda mine: mine["target"].update(identity="another"))),
        ("weight_files", status(weight_files="gguf ff")),
        ("weight_files", status(weight_files=None)),
        ("verification", counters(verification="another rule")),
        ("acceptance", plan(lambda mine: mine.update(acceptance="simulated, length 3"))),
        ("context_per_slot", status(facts={})),
        (
            "context_per_slot",
            status(facts={"/props": {"default_generation_settings": {"n_ctx": 512}}}),
        ),
        ("prefix_cache", plan(lambda mine: mine["conditions"].update(prefix_cache="on"))),
        ("graph_mode", plan(lambda mine: mine["conditions"].update(graph_mode="graphs"))),
        ("engine_args", plan(lambda mine: mine["conditions"].update(engine_args="--mlock"))),
    ],
)
def test_a_condition_that_one_arm_had_otherwise_is_named(
    tmp_path: Path, field: str, change: tuple[str, Change]
) -> None:
    run = write_run(tmp_path / "run", (DFLASH, DSPARK))
    assert pair(build(run))["certificate"]["matched"]
    name, how = change
    alter(run.plan_file if name == "plan.json" else run.turn(DSPARK.id, 1) / name, how)
    found = pair(build(run))
    assert found["verdict"] == "refused"
    assert field in {one["field"] for one in found["certificate"]["differences"]}
    assert field in found["reason"]


def test_arms_on_other_gpus_are_told_apart(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (DFLASH, DSPARK))
    alter(run.run_file, lambda facts: facts.update(device="cuda"))
    for arm, limit in ((DFLASH, "700"), (DSPARK, "600")):
        card = {"name": "A GPU", "driver_version": "580", "power.limit": limit}
        alter(run.turn(arm.id, 1) / "status.json", status(gpus=[card])[1])
    found = pair(build(run))
    assert [one["field"] for one in found["certificate"]["differences"]] == ["hardware"]


def test_other_processes_on_the_gpu_are_told_from_none(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (DFLASH, DSPARK))
    for arm, processes in ((DFLASH, []), (DSPARK, ["41, python, 900"])):
        seen = {"processes": processes}
        alter(run.turn(arm.id, 1) / "status.json", status(others_on_gpu=seen)[1])
    (found,) = pair(build(run))["certificate"]["differences"]
    assert (found["field"], {found["a"], found["b"]}) == ("gpu_processes", {"none", "1"})


def test_what_is_compared(tmp_path: Path) -> None:
    """Drafters on one engine and quantisation; engines and quantisations with one drafter."""
    arms = (PLAIN, DSPARK, OTHER_QUANT, replace(PLAIN, id="llamacpp-base-q8", quantisation="q8_0"))
    result = build(write_run(tmp_path / "run", arms, modes=MODES[:1]))
    assert {(row["a"], row["b"]) for row in result["comparisons"]} == {
        ("llamacpp-dspark", "llamacpp-base"),
        ("vllm-dspark", "llamacpp-dspark"),
        ("llamacpp-base-q8", "llamacpp-base"),
    }


def alter(path: Path, how: Change) -> None:
    data = read_json(path)
    how(data)
    write_json(path, data)
