"""The answer in a few sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.report.headline import MOST, headlines
from orchestrator.report.words import arm_names, change
from orchestrator.result.build import build
from tests.orchestrator.report.synthetic import DFLASH, DSPARK, MODES, PLAIN, ArmLike, write_run

VLLM = (ArmLike("vllm-base", "vllm"), ArmLike("vllm-dflash", "vllm", "dflash", 150.0))


def test_the_best_drafter_of_each_engine_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DFLASH, DSPARK, *VLLM), modes=MODES[:1])
    first, second, *_ = headlines(build(run))
    assert first.startswith("llama.cpp with DSpark is 1.")
    assert "x as fast as plain llama.cpp here, faster, 95 % interval" in first
    assert first.endswith("; the best of 2.")
    assert second.startswith("vLLM with DFlash is 0.")
    assert ", slower, " in second


def test_many_phases_get_a_sentence_each(tmp_path: Path) -> None:
    modes = [{**MODES[0], "name": f"m{number}"} for number in range(MOST)]
    run = write_run(tmp_path / "run", (PLAIN, DSPARK, *VLLM), modes=modes)
    told = list(headlines(build(run)))
    for number, line in enumerate(told[:MOST]):
        assert line.startswith(f"m{number}, 1 at a time: llama.cpp with DSpark is 1.")
        assert line.endswith("; the best of 2.")


def test_each_drafter_is_told_over_all_concurrencies(tmp_path: Path) -> None:
    result = _at_1_and_8(build(write_run(tmp_path / "run", (PLAIN, DFLASH, DSPARK))))
    slow = next(row for row in result["comparisons"] if row["concurrency"] == 8)
    slow |= {"verdict": "slower", "ratio": 0.71, "interval": [0.69, 0.74]}
    result["arms"][1]["acceptance"] = "simulated, length 2.47 by rates 0.73 0.4"
    first, second = headlines(result)
    assert first.startswith(
        "greedy: llama.cpp with DFlash at simulated tau 2.47 against plain llama.cpp: faster at 1 "
        "at a time, 1."
    )
    assert first.endswith("; slower at 8, 0.71x (0.69 to 0.74).")
    assert second.startswith("greedy: llama.cpp with DSpark against plain llama.cpp: faster at 1 ")


def _at_1_and_8(result: dict[str, Any]) -> dict[str, Any]:
    """The second mode as the first one again, with eight requests at a time."""
    modes = [mode for arm in result["arms"] for mode in arm["modes"]]
    for row in (*modes, *result["comparisons"]):
        row |= {"mode": "greedy", "concurrency": 1 if row["mode"] == "greedy" else 8}
    return result


def test_a_refusal_says_in_which_phase(tmp_path: Path) -> None:
    result = build(write_run(tmp_path / "run", (PLAIN, DSPARK)))
    greedy, sampled = result["comparisons"]
    differs = {"field": "verification", "a": "rejection", "b": "equal draws"}
    refused = {"verdict": "refused", "ratio": None, "certificate": {"differences": [differs]}}
    told = [
        list(headlines({**result, "comparisons": rows}))[-1]
        for rows in (
            [greedy, {**sampled, **refused}],
            [{**greedy, **refused}, {**sampled, **refused}],
        )
    ]
    why = (
        "llama.cpp with DSpark against plain llama.cpp is refused: they differ in how drafts are "
        "verified (rejection / equal draws)."
    )
    assert told == [f"temperature, 1 at a time: {why}", why]


def test_one_arm_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    (line,) = headlines(build(write_run(tmp_path / "run", (PLAIN,))))
    assert line.startswith("Nothing was compared")


def test_a_change_of_more_than_double_is_a_factor() -> None:
    assert [change(share) for share in (0.01, 0.082, 2.478)] == ["1.0 %", "8.2 %", "3.5x"]


def test_arms_are_told_apart_by_k_or_else_by_their_ids() -> None:
    ids = {"base": None, "k4": 4, "k8": 8, "once": 8, "again": 8}
    drafters = {"base": "none", "once": "dspark", "again": "dspark"}
    arms = [
        {
            "id": name,
            "backend": "vllm",
            "speculation": drafters.get(name, "dflash"),
            "draft_tokens": k,
            "acceptance": "real",
        }
        for name, k in ids.items()
    ]
    assert list(arm_names({"arms": arms}).values()) == [
        "plain vLLM",
        "vLLM with DFlash K 4",
        "vLLM with DFlash K 8",
        "vLLM with DSpark (once)",
        "vLLM with DSpark (again)",
    ]
