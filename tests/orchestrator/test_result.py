"""result.json out of the run directory of a run on the fake engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import orchestrator
from backends.errors import InputError
from orchestrator.comparing.certify import CONDITIONS
from orchestrator.inputs.recipe import load_recipe
from orchestrator.job import prepare
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory, read_json, write_json
from tests.recipes_for_tests import recipe_data, write_recipe

SCHEMA = read_json(Path(orchestrator.__file__).parent / "schemas" / "result.schema.json")
MUSEORCH = [sys.executable, "-m", "orchestrator.cli"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a plain and a drafted arm, with the reference again at the end."""
    folder = tmp_path_factory.mktemp("run")
    recipe = write_recipe(folder, recipe_data(folder))
    subprocess.run(
        [*MUSEORCH, "compare", str(recipe), "--out", str(folder / "out")],
        check=True,
        capture_output=True,
    )
    return folder / "out"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def result_of(run: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(build(RunDirectory.open(run))))
    jsonschema.validate(result, SCHEMA)
    return result


def change(path: Path, how: Callable[[Any], Any]) -> None:
    data = read_json(path)
    how(data)
    write_json(path, data)


def test_a_deleted_result_comes_back_byte_for_byte(run: Path) -> None:
    before = (run / "result.json").read_bytes()
    (run / "result.json").unlink()
    subprocess.run([*MUSEORCH, "report", str(run)], check=True, capture_output=True)
    assert (run / "result.json").read_bytes() == before


def test_every_condition_was_gathered(run: Path) -> None:
    for arm in result_of(run)["arms"]:
        for mode in arm["modes"]:
            unknown = {name for name in CONDITIONS if mode["conditions"].get(name) is None}
            # The fake engine does not tell its context, as llama-server does.
            assert unknown <= {"context_per_slot"}
            assert mode["observed"]["server"]["before"]["listens"]
            assert mode["observed"]["server"]["before"] == mode["observed"]["server"]["after"]
            assert mode["conditions"]["weight_files"].startswith("gguf ")


def test_a_difference_in_what_was_gathered_refuses(run: Path) -> None:
    status = run / "arms" / "llamacpp-dflash" / "1" / "status.json"
    change(status, lambda data: data.update(weight_files="gguf another"))
    (pair,) = result_of(run)["comparisons"]
    assert pair["verdict"] == "refused"
    assert "weight_files" in {d["field"] for d in pair["certificate"]["differences"]}
    assert pair["prompts_to_show_5_percent"] is None


def test_what_was_not_observed_refuses(run: Path) -> None:
    counters = run / "arms" / "llamacpp-dflash" / "1" / "counters.json"
    change(counters, lambda phases: [phase.pop("observed") for phase in phases])
    (pair,) = result_of(run)["comparisons"]
    clocks = [d for d in pair["certificate"]["differences"] if d["field"] == "clocks"]
    assert clocks == [{"field": "clocks", "a": "unknown", "b": "no GPU in use"}]


def test_a_server_that_was_another_afterwards_invalidates(run: Path) -> None:
    counters = run / "arms" / "llamacpp-dflash" / "1" / "counters.json"
    change(counters, lambda phases: phases[0]["observed"]["server"]["after"].update(pid=1))
    result = result_of(run)
    assert result["arms"][1]["modes"][0]["problems"] == [
        "the server is not the process that it was before the phase"
    ]
    (pair,) = result["comparisons"]
    assert pair["verdict"] == "refused"


def test_counters_that_contradict_each_other_invalidate_their_arm_only(run: Path) -> None:
    counters = run / "arms" / "llamacpp-dflash" / "1" / "counters.json"
    change(counters, lambda phases: phases[0]["after"].update(steps=0))
    result = result_of(run)
    base, drafter = (arm["modes"][0] for arm in result["arms"])
    assert base["problems"] == []
    assert "the steps counter went from" in drafter["problems"][0]
    assert drafter["speculation"] is None
    assert drafter["metrics"]["acceptance_length"]["value"] is None
    assert result["comparisons"][0]["verdict"] == "refused"


def test_counters_that_cover_other_requests_than_the_timed_ones_invalidate(run: Path) -> None:
    samples = run / "arms" / "llamacpp-dflash" / "1" / "samples.jsonl"

    def tell(accepted: int) -> None:
        rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        told = {"steps": None, "drafted": None, "accepted": accepted, "histogram": None}
        lines = (json.dumps({**row, "server": told}) for row in rows)
        samples.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    tell(7)  # of each of 6 requests; the server counted 42
    drafter = result_of(run)["arms"][1]["modes"][0]
    assert drafter["problems"] == []
    tell(6)
    drafter = result_of(run)["arms"][1]["modes"][0]
    (problem,) = drafter["problems"]
    assert problem.startswith("the server counted 42 accepted drafts, the answers that came 36")
    for name in ("acceptance_length", "step_time_ms"):
        assert drafter["metrics"][name]["value"] is None
        assert drafter["metrics"][name]["reason"] == problem


def test_a_failed_last_turn_is_told_and_not_taken_for_no_drift(run: Path) -> None:
    assert result_of(run)["drift"]
    last = run / "arms" / "llamacpp-base" / "2"
    change(last / "status.json", lambda data: data.update(status="failed", reason="out of memory"))
    (last / "counters.json").unlink()
    result = result_of(run)
    assert result["drift"] == []
    base, drafter = result["arms"]
    assert (base["status"], base["reason"]) == ("failed", "again, for drift: out of memory")
    assert drafter["status"] == "ok"
    assert result["complete"]
    shutil.rmtree(last)
    result = result_of(run)
    assert not result["complete"]
    assert result["arms"][0]["status"] == "ok"


def test_problems_of_the_last_turn_are_doubts_about_drift(run: Path) -> None:
    counters = run / "arms" / "llamacpp-base" / "2" / "counters.json"
    change(counters, lambda phases: phases[0]["observed"]["server"]["after"].update(pid=1))
    base = result_of(run)["arms"][0]
    assert (base["status"], base["modes"][0]["problems"]) == ("ok", [])
    assert base["modes"][0]["warnings"] == [
        "again, for drift: the server is not the process that it was before the phase"
    ]


def drop(*keys: str) -> Callable[[Any], Any]:
    return lambda data: [data.pop(key) for key in keys]


@pytest.mark.parametrize(
    ("file", "how", "complaint"),
    [
        ("run.json", lambda data: data.update(schema=2), r"run.json: has schema 2; .* schema 1"),
        ("run.json", drop("schema"), r'run.json: lacks "schema"'),
        ("run.json", drop("bookend"), r'run.json: lacks "bookend"'),
        ("run.json", lambda data: data["arms"].append("x"), r"plan.json: lacks x"),
        (
            "run.json",
            lambda data: data["workload"]["modes"][0].update(name="x"),
            r'1/counters.json: has a mode "greedy" that is not in run.json',
        ),
        ("arms/llamacpp-base/1/counters.json", list.clear, r"counters.json: lacks phases"),
        (
            "arms/llamacpp-base/1/counters.json",
            lambda rows: rows[0].pop("verification"),
            r'counters.json: lacks "verification"',
        ),
        (
            "arms/llamacpp-dflash/1/counters.json",
            lambda rows: rows[0]["after"].update(accepted=1.5),
            r"counters.json: after.accepted: Input should be a valid integer",
        ),
        ("environment.json", drop("cpu"), r'environment.json: lacks "cpu"'),
    ],
)
def test_a_run_directory_that_is_not_as_it_was_written_is_refused(
    run: Path, file: str, how: Callable[[Any], Any], complaint: str
) -> None:
    change(run / file, how)
    with pytest.raises(InputError, match=complaint):
        result_of(run)


def test_requests_of_another_arm_are_refused(run: Path) -> None:
    base, drafter = (run / "arms" / f"llamacpp-{name}" / "1" for name in ("base", "dflash"))
    shutil.copyfile(drafter / "samples.jsonl", base / "samples.jsonl")
    with pytest.raises(InputError, match=r"base/1/samples.jsonl: holds requests of another arm"):
        result_of(run)


def test_foreign_load_is_a_warning_and_no_refusal(run: Path) -> None:
    counters = run / "arms" / "llamacpp-dflash" / "1" / "counters.json"
    load = {"threads": 8, "foreign_threads": 6.5}
    change(counters, lambda phases: phases[0]["observed"]["load"].update(load))
    result = result_of(run)
    assert result["arms"][1]["modes"][0]["warnings"] == [
        "other processes kept 6.5 of 8 hardware threads busy"
    ]
    (pair,) = result["comparisons"]
    assert pair["verdict"] != "refused"


def test_a_bridge_has_a_ratio_and_says_what_it_is_not(run: Path) -> None:
    def plain_and_small(plans: list[dict[str, Any]]) -> None:
        plans[1].update(speculation="none", drafter=None, draft_tokens=None)
        plans[1]["target"]["quantisation"] = "q4_k_m"

    turn = run / "arms" / "llamacpp-dflash" / "1"
    files = {"weight_files": "gguf another", "drafter_files": "none"}
    change(turn / "status.json", lambda data: data.update(files))
    change(turn / "counters.json", lambda phases: phases[0].update(verification="none"))
    change(run / "plan.json", plain_and_small)
    (pair,) = result_of(run)["comparisons"]
    assert pair["verdict"] == "refused"
    change(run / "run.json", lambda facts: facts.update(allow=["quantisation"]))
    (pair,) = result_of(run)["comparisons"]
    assert pair["ratio"] is not None
    assert [d["field"] for d in pair["certificate"]["allowed"]] == ["weight_files", "quantisation"]
    assert pair["certificate"]["matched"]
    assert "no speedup" in pair["reason"]


def test_simulated_acceptance_is_labelled_and_never_mixed_with_real(tmp_path: Path) -> None:
    data = recipe_data(tmp_path)
    # The fake engine accepts 3, 0, 2 drafts a step, whatever llama-server's option says.
    data["arms"].append({**data["arms"][1], "draft_tokens": 7, "acceptance": {"length": 2.5}})
    data["order"] = {"bookend": False}
    out = tmp_path / "out"
    subprocess.run(
        [*MUSEORCH, "compare", str(write_recipe(tmp_path, data)), "--out", str(out)],
        check=True,
        capture_output=True,
    )
    result = result_of(out)
    assert [arm["id"] for arm in result["arms"]][2] == "llamacpp-dflash-simulated"
    assert [arm["acceptance"] for arm in result["arms"]] == [
        "real",
        "real",
        "simulated, length 2.5",
    ]
    mixed = [row for row in result["comparisons"] if "simulated" in row["a"] + row["b"]]
    assert len(mixed) == 2
    for row in mixed:
        assert row["verdict"] == "refused"
        assert "acceptance" in [d["field"] for d in row["certificate"]["differences"]]
    # Its output means nothing, so it is not audited either.
    assert {(r["a"], r["b"]) for r in result["audit"]["greedy"]} == {
        ("llamacpp-dflash", "llamacpp-base")
    }


def test_simulated_acceptance_needs_a_drafter_and_one_form(tmp_path: Path) -> None:
    data = recipe_data(tmp_path)
    data["arms"] = [{"backend": "llamacpp", "acceptance": {"length": 2}}]
    with pytest.raises(InputError, match=r"yaml:\d+: arms\[0\].acceptance.*speculation is none"):
        prepare(str(write_recipe(tmp_path, data)))
    data["arms"] = [{"backend": "llamacpp", "speculation": "dflash", "acceptance": {}}]
    with pytest.raises(InputError, match=r"arms\[0\].acceptance"):
        prepare(str(write_recipe(tmp_path, data)))
    data["arms"][0]["acceptance"] = {"simulate": [0.2, 0.3]}
    with pytest.raises(InputError, match="cannot rise"):
        prepare(str(write_recipe(tmp_path, data)))
    data["arms"][0]["acceptance"] = {"simulate": [0.3, 0.2]}
    with pytest.raises(InputError, match=r"yaml:\d+: arms\[0\]: 2 simulated rates for 7"):
        prepare(str(write_recipe(tmp_path, data)))


def test_greedy_sampled_fixed_and_natural_in_one_run(tmp_path: Path) -> None:
    modes = [
        "greedy",
        {"name": "greedy-natural", "temperature": 0, "stop": "natural"},
        "temperature",
    ]
    data = recipe_data(tmp_path)
    data["workload"] |= {"modes": modes, "concurrency": [1, 3]}
    data["serve"] = {"context_length": 64}
    for arm in data["arms"]:
        arm["env"] = {"FAKE_ENGINE": arm.get("env", {}).get("FAKE_ENGINE", "") + " --eos-after 9"}
    out = tmp_path / "out"
    subprocess.run(
        [*MUSEORCH, "compare", str(write_recipe(tmp_path, data)), "--out", str(out)],
        check=True,
        capture_output=True,
    )
    result = result_of(out)
    phases = [(m["mode"], m["concurrency"]) for m in result["arms"][0]["modes"]]
    assert phases == [
        (mode, c) for c in (1, 3) for mode in ("greedy", "greedy-natural", "temperature")
    ]
    for mode in result["arms"][0]["modes"]:
        natural = mode["mode"] == "greedy-natural"
        assert mode["conditions"]["stop"].startswith("natural" if natural else "fixed")
        # The fake engine ends every reply after 9 tokens: right only where it may.
        assert bool(mode["problems"]) is not natural
    compared = {(r["mode"], r["concurrency"]): r for r in result["comparisons"]}
    assert compared["greedy", 1]["verdict"] == "refused"
    for concurrency in (1, 3):
        row = compared["greedy-natural", concurrency]
        assert row["ratio"] is not None
        assert row["throughput_ratio"] is not None


def test_claims_are_checked_against_a_run_directory(finished: Path) -> None:
    done = subprocess.run(
        [*MUSEORCH, "claims", "check", str(finished), "--json"], check=True, capture_output=True
    )
    rows = {row["claim"]: row for row in json.loads(done.stdout)}
    meta = rows["seed-meta-llamacpp"]
    assert not meta["comparable"]
    assert {"engine", "sampling"} <= {c["field"] for c in meta["shared"]}
    assert {"model", "hardware", "quantisation"} == {c["field"] for c in meta["differs"]}
    text = subprocess.run(
        [*MUSEORCH, "claims", "check", str(finished)], check=True, capture_output=True, text=True
    ).stdout
    assert text.endswith(f"0 of {len(rows)} claims can be compared with this run.\n")
    assert max(map(len, text.splitlines())) <= 80


def test_a_recipe_can_allow_known_conditions_only(tmp_path: Path) -> None:
    data = recipe_data(tmp_path, allow=["quantisation", "patch"])
    with pytest.raises(InputError, match=r'"patch" is not a condition. Did you mean "patches"'):
        load_recipe(write_recipe(tmp_path, data))
    data["allow"] = ["quantisation", "patches"]
    assert load_recipe(write_recipe(tmp_path, data))[0].allow == ["quantisation", "patches"]


def test_a_server_that_contradicts_what_was_asked_for_invalidates(run: Path) -> None:
    modes = [arm["modes"][0] for arm in result_of(run)["arms"]]
    assert modes[0]["condition_sources"] == {
        "kv_dtype": "set",
        "prefix_cache": "set",
        "graph_mode": "set",
        "context_per_slot": "reported",
    }
    # Of an arm without arguments of its own, which may change what is set.
    change(run / "plan.json", lambda plans: plans[0]["conditions"].update(engine_args=""))
    log = run / "arms" / "llamacpp-base" / "1" / "server.log"
    with log.open("a", encoding="utf-8") as file:
        file.write("0.1 I llama_kv_cache: size = 1 MiB, K (f16): 0.5 MiB, V (f16): 0.5 MiB\n")
    result = result_of(run)
    mode = result["arms"][0]["modes"][0]
    assert "the server reports kv dtype f16, bf16 was asked for" in mode["problems"]
    assert mode["condition_sources"]["kv_dtype"] == "reported"
    assert result["comparisons"][0]["verdict"] == "refused"
