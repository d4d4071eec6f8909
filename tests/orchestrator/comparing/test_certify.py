"""Every condition planted different, once in each kind of comparison."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from orchestrator.comparing.certify import (
    AT_POWER_LIMIT,
    CONDITIONS,
    MAY_DIFFER,
    Difference,
    Kind,
    certify,
    kind_of,
    same,
)

KINDS: tuple[Kind, ...] = get_args(Kind)


def conditions(**changes: Any) -> dict[str, Any]:
    """An arm's conditions: every field filled, equal unless changed."""
    return {name: f"hf {name}" for name in CONDITIONS} | changes


@pytest.mark.parametrize("kind", KINDS)
def test_equal_conditions_match(kind: Kind) -> None:
    assert certify(conditions(), conditions(), kind).matched


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_planted_difference_is_named_unless_it_is_under_test(name: str, kind: Kind) -> None:
    found = certify(conditions(), conditions(**{name: "hf else"}), kind)
    if name in MAY_DIFFER[kind]:
        assert found.matched
    else:
        assert found.differences == (Difference(name, f"hf {name}", "hf else"),)
        assert not found.matched


@pytest.mark.parametrize("name", CONDITIONS)
def test_unknown_matches_nothing_not_even_unknown(name: str) -> None:
    kind: Kind = next(k for k in KINDS if name not in MAY_DIFFER[k])
    left, right = conditions(), conditions()
    del left[name], right[name]
    assert certify(left, right, kind).differences == (Difference(name, "unknown", "unknown"),)


def test_all_differences_are_listed() -> None:
    found = certify(
        conditions(), conditions(kv_dtype="f16", threads=4, sampling="T 1"), "drafter-against-none"
    )
    assert [d.field for d in found.differences] == ["kv_dtype", "threads", "sampling"]


def test_no_condition_is_forgotten() -> None:
    """Written out once more, so that dropping one from the table is seen."""
    words = """hardware clocks gpu_processes engine patches weights weight_files quantisation
        drafter drafter_files draft_tokens verification acceptance kv_dtype context_per_slot
        concurrency threads prefix_cache graph_mode engine_args prompts sampling stop harness"""
    assert list(CONDITIONS) == words.split()


def test_what_each_comparison_is_about_may_differ_and_nothing_else() -> None:
    drafter = {"drafter", "drafter_files", "draft_tokens"}
    assert dict(MAY_DIFFER) == {
        "drafter-against-none": drafter | {"verification"},
        "drafter-against-drafter": drafter,
        "none-against-none": set(),
        "engine-against-engine": {"engine", "patches"},
    }


def test_kind_of_a_pair() -> None:
    def arm(backend: str, speculation: str) -> dict[str, str]:
        return {"backend": backend, "speculation": speculation}

    assert kind_of(arm("vllm", "dflash"), arm("vllm", "none")) == "drafter-against-none"
    assert kind_of(arm("vllm", "dflash"), arm("vllm", "dspark")) == "drafter-against-drafter"
    assert kind_of(arm("vllm", "none"), arm("sglang", "none")) == "engine-against-engine"
    assert kind_of(arm("vllm", "none"), arm("vllm", "none")) == "none-against-none"


def test_clocks_agree_within_a_tenth() -> None:
    def clocks(mhz: float | str) -> dict[str, Any]:
        return conditions(clocks=mhz)

    assert certify(clocks(1980.0), clocks(1830.0), "drafter-against-none").matched
    assert not certify(clocks(1980.0), clocks(1500.0), "drafter-against-none").matched
    assert not certify(clocks(1980.0), clocks("no GPU in use"), "drafter-against-none").matched


@pytest.mark.parametrize(
    ("one", "other", "matched"),
    [
        (1980.0, f"1470{AT_POWER_LIMIT}", True),
        (f"1965{AT_POWER_LIMIT}", f"1470{AT_POWER_LIMIT}", True),
        (1400.0, f"1470{AT_POWER_LIMIT}", True),
        # Held lower than its power allows: locked.
        (1200.0, f"1470{AT_POWER_LIMIT}", False),
        ("no GPU in use", f"1470{AT_POWER_LIMIT}", False),
    ],
)
def test_a_clock_at_the_power_limit_is_what_the_load_costs(
    one: float | str, other: float | str, matched: bool
) -> None:
    for a, b in ((one, other), (other, one)):
        found = certify(conditions(clocks=a), conditions(clocks=b), "drafter-against-none")
        assert found.matched is matched


def test_files_of_two_formats_are_vouched_for_by_the_checkpoints_name() -> None:
    def files(text: str) -> dict[str, Any]:
        return conditions(weight_files=text, drafter_files=text)

    assert certify(files("hf 01ab"), files("gguf 02cd"), "engine-against-engine").matched
    found = certify(files("hf 01ab"), files("hf 02cd"), "engine-against-engine")
    assert [d.field for d in found.differences] == ["weight_files", "drafter_files"]


def test_a_bridge_keeps_what_was_allowed_apart_from_what_was_not() -> None:
    other = conditions(quantisation="q4", weight_files="hf 99", threads=8)
    found = certify(conditions(), other, "drafter-against-none", ["quantisation"])
    assert [d.field for d in found.allowed] == ["weight_files", "quantisation"]
    assert [d.field for d in found.differences] == ["threads"]
    assert not found.matched
    other["threads"] = "hf threads"
    found = certify(conditions(), other, "drafter-against-none", ["quantisation"])
    assert found.matched
    assert found.allowed


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        ("simulated, length 2.5", "simulated, length 2.5 by rates 0.8 0.5 0.2", True),
        (
            "simulated, length 2.5 of rates 0.8 0.5 0.2",
            "simulated, length 2.3 by rates 0.8 0.5",
            True,
        ),
        ("simulated, length 2.5 by rates 0.8 0.5 0.2", "simulated, length 1.8 by rates 0.8", True),
        ("simulated, length 2.3 by rates 0.8 0.5", "simulated, length 2.3 by rates 0.7 0.6", True),
        ("simulated, length 2.5 by rates 0.8 0.5 0.2", "simulated, length 1.7 by rates 0.7", False),
        ("simulated, length 1.8 by rates 0.8", "simulated, length 1.85 by rates 0.85", False),
        ("simulated, length 2.5", "simulated, length 2.4", False),
        ("simulated, length 2.5", "real", False),
        ("simulated, length 2.5", "none", True),
        ("none", "none", True),
    ],
)
def test_simulated_acceptance_is_alike_by_length_or_by_curve(
    left: str, right: str, alike: bool
) -> None:
    assert same("acceptance", left, right) is alike
    assert same("acceptance", right, left) is alike
