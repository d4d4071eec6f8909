"""The published claims, and claims against a run whose conditions are known."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from backends.errors import InputError
from orchestrator.cli import app
from orchestrator.inputs.models import load_model, quantisation_names
from orchestrator.published.claim_check import Check, check
from orchestrator.published.claims import (
    Published,
    load_claims,
    load_noise,
    named,
)
from orchestrator.published.explain import explain

T_06 = "T 0.6, top_p 0.95, top_k 64, seed 1"
CLAIM: dict[str, Any] = {
    "id": "here",
    "title": "A claim about the run below",
    "conditions": {
        "hardware": "H200",
        "engine": "vllm",
        "quantisation": "bf16",
        "sampling": {"temperature": 1.0, "top_p": 0.95, "top_k": 64},
        "draft_tokens": 15,
        "concurrency": 1,
        "prompts": "HumanEval",
    },
    "numbers": [
        {"speculation": "none", "value": 60.0},
        {"speculation": "dflash", "value": 200.0, "acceptance_length": 4.0},
        {"speculation": "dspark", "value": 210.0, "drafter": "DaoCloud"},
    ],
    "ratios": [{"a": "dflash", "b": "none", "value": 3.3}],
}


def published(tmp_path: Path, **conditions: Any) -> Published:
    claim = copy.deepcopy(CLAIM)
    claim["conditions"].update(conditions)
    return load_claims(write(tmp_path, [claim]))["here"]


def write(folder: Path, claims: list[dict[str, Any]]) -> Path:
    data = {"schema": 1, "model": "muse-glimmer-30b", "source": "a report", "claims": claims}
    (folder / "claims.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return folder


def arm(speculation: str, rate: float, tau: float | None = None, **conditions: Any) -> Any:
    drafted = speculation != "none"
    return {
        "id": f"vllm-{speculation}",
        "backend": "vllm",
        "speculation": speculation,
        "modes": [
            {
                "mode": "temperature",
                "concurrency": 1,
                "problems": [],
                "metrics": {
                    "decode_tok_s": {"value": rate},
                    "output_tok_s": {"value": rate / 2},
                    "acceptance_length": {"value": tau},
                },
                "conditions": {
                    "weights": "Muse-Glimmer-30B",
                    "hardware": "1 x NVIDIA H200, driver 580.1, 700 W",
                    "engine": "vllm 0.32.0",
                    "quantisation": "bf16",
                    "sampling": "T 1, top_p 0.95, top_k 64, seed 1",
                    "draft_tokens": 15 if drafted else "none",
                    "drafter": f"muse-{speculation} bf16" if drafted else "none",
                    "concurrency": 1,
                    "acceptance": "real",
                }
                | conditions,
            }
        ],
    }


def run(**conditions: Any) -> dict[str, Any]:
    row = {
        "a": "vllm-dflash",
        "b": "vllm-none",
        "mode": "temperature",
        "concurrency": 1,
        "ratio": 2.8,
        "interval": [2.6, 3.0],
        "certificate": {"allowed": []},
    }
    arms = [
        arm("none", 64.0, **conditions),
        arm("dflash", 180.0, 3.9, **conditions),
        arm("dspark", 190.0, 4.2, **conditions),
    ]
    if "draft_tokens" in conditions:
        arms[0]["modes"][0]["conditions"]["draft_tokens"] = "none"
    return {"arms": arms, "comparisons": [row]}


def checked(claim: Published, result: dict[str, Any]) -> Check:
    found = check(claim, result)
    assert found is not None
    return found


def test_every_published_row_is_there_with_a_source() -> None:
    claims = load_claims()
    assert len(claims) == 23
    assert {name for name in claims if name.startswith("seed-")} == {
        "seed-vllm-dflash",
        "seed-meta-llamacpp",
        "seed-dspark-chat-bf16",
        "seed-dspark-chat-nvfp4",
        "seed-dspark-agents-bf16",
        "seed-dspark-agents-nvfp4",
        "seed-dspark-ctx",
    }
    for item in claims.values():
        assert item.source
        assert item.claim.conditions.hardware


def test_claimed_ratios_are_those_of_the_claimed_rates() -> None:
    """A typing error in one of them would show here. The claims themselves round."""
    compared = 0
    for item in load_claims().values():
        rates = {n.speculation: n.value for n in item.claim.numbers if n.value and not n.at}
        for ratio in item.claim.ratios:
            a, b = rates.get(ratio.a), rates.get(ratio.b)
            if a is not None and b is not None:
                assert a / b == pytest.approx(ratio.value, rel=0.02), item.claim.id
                compared += 1
    assert compared == 6


def test_31_and_23_differ_in_quantisation_engine_sampling_and_hardware() -> None:
    claims = load_claims()
    found = explain(claims["seed-meta-llamacpp"], claims["seed-vllm-dflash"])
    assert {pair.field for pair in found.differs} == {
        "quantisation",
        "engine",
        "sampling",
        "hardware",
    }
    assert not found.comparable
    assert "draft_tokens" in {pair.field for pair in found.unknown}
    assert [pair.field for pair in found.shared] == ["model"]


def test_what_was_not_published_is_not_the_same() -> None:
    claims = load_claims()
    found = explain(claims["seed-meta-llamacpp"], claims["seed-meta-llamacpp"])
    assert not found.differs
    assert "prompts" in {pair.field for pair in found.unknown}
    assert not found.comparable


def test_what_a_claim_leaves_open_of_its_sampling_is_unknown(tmp_path: Path) -> None:
    item = published(tmp_path, sampling={"temperature": 1.0})
    found = checked(item, run())
    assert "sampling" in {c.field for c in found.of("unknown")}
    assert found.comparable  # the temperature is the same
    assert "sampling" in {c.field for c in checked(item, run(sampling=T_06)).of("differs")}
    claims = load_claims()
    for other in ("seed-vllm-dflash", "h200-vllm-terminal-bench"):
        pair = explain(claims["h200-sglang-humaneval"], claims[other])
        assert "sampling" in {one.field for one in pair.unknown}


def test_conditions_published_with_each_number_are_published(tmp_path: Path) -> None:
    claims = load_claims()
    code, tuned = claims["pro6000-llamacpp-code"], claims["seed-vllm-dflash"]
    assert {(p.field, p.a) for p in explain(code, tuned).differs} >= {("draft_tokens", "3, 15")}
    claim = copy.deepcopy(CLAIM)
    del claim["conditions"]["draft_tokens"], claim["conditions"]["concurrency"]
    claim["numbers"][1] |= {"draft_tokens": 15, "concurrency": 1}
    item = load_claims(write(tmp_path, [claim]))["here"]
    shared = {c.field for c in checked(item, run()).of("shared")}
    assert {"draft_tokens", "concurrency"} <= shared
    differs = {c.field for c in checked(item, run(draft_tokens=7, concurrency=4)).of("differs")}
    assert {"draft_tokens", "concurrency"} <= differs


def test_a_number_is_held_against_its_own_conditions(tmp_path: Path) -> None:
    claim = copy.deepcopy(CLAIM)
    del claim["conditions"]["draft_tokens"], claim["ratios"]
    claim["numbers"] = [
        {"speculation": "dflash", "value": 278.0, "draft_tokens": 15},
        {"speculation": "dflash", "value": 153.0, "draft_tokens": 4},
        {"speculation": "none", "value": 66.9, "at": "500 tokens"},
        {"speculation": "none", "value": 99.0, "concurrency": 8},
    ]
    item = load_claims(write(tmp_path, [claim]))["here"]
    found = checked(item, run())
    assert [(row.what, row.claimed) for row in found.against] == [("vllm-dflash, tok/s", 278.0)]


def test_a_ratio_at_one_context_is_not_held_against_the_whole(tmp_path: Path) -> None:
    claim = copy.deepcopy(CLAIM)
    claim["ratios"][0]["at"] = "32,000 tokens"
    item = load_claims(write(tmp_path, [claim]))["here"]
    assert not [row for row in checked(item, run()).against if "over" in row.what]


def test_a_run_under_the_claims_conditions_gets_numbers_side_by_side(tmp_path: Path) -> None:
    found = checked(published(tmp_path), run())
    assert found.comparable
    assert {c.field for c in found.of("shared")} == {
        "model",
        "hardware",
        "engine",
        "quantisation",
        "sampling",
        "draft_tokens",
        "concurrency",
    }
    assert "prompts" in {c.field for c in found.of("unknown")}
    rows = {row.what: (row.claimed, row.measured) for row in found.against}
    # Nothing for DSpark: the claim is about another head.
    assert rows == {
        "vllm-none, tok/s": (60.0, 64.0),
        "vllm-dflash, tok/s": (200.0, 180.0),
        "vllm-dflash, tokens/step": (4.0, 3.9),
        "vllm-dflash over vllm-none": (3.3, 2.8),
    }


@pytest.mark.parametrize(
    ("field", "conditions"),
    [
        ("model", {"weights": "tiny-muse"}),
        ("hardware", {"hardware": "2 x NVIDIA H200, driver 580.1, 700 W"}),
        ("hardware", {"hardware": "1 x NVIDIA H100, driver 580.1, 700 W"}),
        ("quantisation", {"quantisation": "nvfp4"}),
        ("sampling", {"sampling": "T 0, top_p 1, top_k 0, seed 1"}),
        ("sampling", {"sampling": "T 1, top_p 1, top_k 64, seed 1"}),
        ("draft_tokens", {"draft_tokens": 7}),
        ("concurrency", {"concurrency": 8}),
    ],
)
def test_one_different_condition_withholds_the_numbers(
    tmp_path: Path, field: str, conditions: dict[str, Any]
) -> None:
    found = checked(published(tmp_path), run(**conditions))
    assert [c.field for c in found.of("differs")] == [field]
    assert not found.comparable
    assert found.against == ()


def test_an_essential_condition_left_out_withholds_the_numbers(tmp_path: Path) -> None:
    found = checked(published(tmp_path, sampling=None), run())
    assert "sampling" in {c.field for c in found.of("unknown")}
    assert not found.comparable
    found = checked(published(tmp_path, concurrency=None), run())
    assert found.comparable


def test_invalid_simulated_and_bridged_arms_are_not_measured_against_claims(
    tmp_path: Path,
) -> None:
    assert checked(published(tmp_path), run(acceptance="simulated")).against == ()
    result = run()
    for arm_ in result["arms"]:
        arm_["modes"][0]["problems"] = ["2 requests failed"]
    result["comparisons"][0]["certificate"]["allowed"] = [{"field": "quantisation"}]
    assert checked(published(tmp_path), result).against == ()


def test_the_closest_phase_is_the_one_shown(tmp_path: Path) -> None:
    result = run()
    other = arm("none", 70.0, sampling="T 0, top_p 1, top_k 0, seed 1")
    other["modes"][0]["mode"] = "greedy"
    result["arms"].insert(0, other)
    assert checked(published(tmp_path), result).mode == "temperature"


def test_rates_of_all_streams_are_held_against_the_throughput(tmp_path: Path) -> None:
    found = checked(published(tmp_path, rate="all streams together"), run())
    rows = {row.what: row.measured for row in found.against}
    assert rows["vllm-none, tok/s"] == 32.0


def test_a_quantisation_goes_by_one_name(tmp_path: Path) -> None:
    """A report's name for a file is no other quantisation than the file's own."""
    item = published(tmp_path, quantisation="kquant-17gb")
    assert item.claim.conditions.quantisation == "q4_k_m"
    assert item.quantisation_named == "kquant-17gb"
    assert checked(item, run(quantisation="q4_k_m")).comparable
    assert [c.field for c in checked(item, run(quantisation="q4_k_xl")).of("differs")] == [
        "quantisation"
    ]
    used = {
        one.quantisation for one in load_model("muse-glimmer-30b", tmp_path).model.target.artefacts
    }
    assert set(quantisation_names("muse-glimmer-30b").values()) <= used
    assert quantisation_names("no-such-model") == {}


def test_published_noise_floors_are_there_with_their_source() -> None:
    found = {(one.of, one.concurrency, one.calls): one.within for one, _ in load_noise()}
    assert found == {
        ("step time", 1, None): 0.002,
        ("step time", 10, None): 0.058,
        ("acceptance length", None, 1753): 0.11,
        ("acceptance length", None, 100): 0.45,
    }
    assert all(source and one.hardware == "H200" for one, source in load_noise())


def test_mistakes_in_a_claims_file_are_named_with_line_and_field(tmp_path: Path) -> None:
    claim = copy.deepcopy(CLAIM)
    claim["conditions"]["quantization"] = "bf16"
    with pytest.raises(InputError, match=r"yaml:\d+: .*conditions.quantization.*quantisation"):
        load_claims(write(tmp_path, [claim]))
    claim = copy.deepcopy(CLAIM)
    claim["acceptance"] = {"dflash": [0.4, 0.5]}
    with pytest.raises(InputError, match=r"claims\[0\].*cannot rise"):
        load_claims(write(tmp_path, [claim]))
    claim = copy.deepcopy(CLAIM)
    claim["numbers"][1] = {"speculation": "dflash"}
    with pytest.raises(InputError, match=r"numbers\[1\].*needs a value"):
        load_claims(write(tmp_path, [claim]))
    with pytest.raises(InputError, match='two claims are called "here"'):
        load_claims(write(tmp_path, [CLAIM, CLAIM]))


def test_an_unknown_claim_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match='Did you mean "seed-vllm-dflash"'):
        named(load_claims(), "seed-vlm-dflash")


def test_the_commands_print_text_and_json() -> None:
    runner = CliRunner()
    for command in (
        ["claims", "list"],
        ["claims", "noise"],
        ["claims", "explain", "seed-meta-llamacpp", "seed-vllm-dflash"],
    ):
        text = runner.invoke(app, command)
        assert text.exit_code == 0
        assert max(len(line) for line in text.stdout.splitlines()) <= 80
        assert json.loads(runner.invoke(app, [*command, "--json"]).stdout)
    listed = runner.invoke(app, ["claims", "list"]).stdout
    for told in ("dflash ~57 tok/s, 2.5 tokens/step", "0.73 0.40 0.15", "153 tok/s (K 20)"):
        assert told in " ".join(listed.split())
    names = list(load_claims())
    for a, b in zip(names, [*names[1:], names[0]], strict=True):
        told = runner.invoke(app, ["claims", "explain", a, b]).stdout
        assert max(map(len, told.splitlines())) <= 80
        assert not re.search(r"^[ab]: \S+: *$", told, re.MULTILINE)
    explained = runner.invoke(app, ["claims", "explain", "seed-meta-llamacpp", "seed-vllm-dflash"])
    assert "hardware, engine, quantisation and sampling differ" in explained.stdout
