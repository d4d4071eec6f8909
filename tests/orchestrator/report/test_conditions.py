"""Why a pair was refused, in words."""

from __future__ import annotations

from typing import Any

from orchestrator.report.conditions import held, refusal, refusals, show


def row(*differences: tuple[str, Any, Any]) -> dict[str, Any]:
    found = [{"field": field, "a": a, "b": b} for field, a, b in differences]
    return {"certificate": {"differences": found}, "reason": "no prompt in common"}


def test_a_bridge_is_labelled_wherever_its_ratio_stands() -> None:
    told = [{"field": "quantisation", "a": "bf16", "b": "q4_k_m"}]
    pair = {"ratio": 1.5, "certificate": {"differences": [], "allowed": told}}
    assert held(pair) == "a bridge over quantisation: no speedup"
    assert held({"ratio": 1.5, "certificate": {"allowed": []}}) == "matched"


def test_both_sides_of_a_difference_are_told() -> None:
    assert refusal(row(("kv_dtype", "f16", "bf16"), ("clocks", 1980.0, 1200.0))) == (
        "they differ in KV cache type (f16 / bf16), clocks (1980 MHz / 1200 MHz)"
    )


def test_what_one_side_does_not_tell_is_no_difference() -> None:
    given = row(
        ("engine", "llamacpp unknown", "llamacpp 1.2"),
        ("weight_files", "unknown", "gguf 01"),
        ("gpu_processes", "unknown", "unknown"),
    )
    assert refusal(given) == (
        "unknown of the first: engine, weight files; unknown of both: GPU processes"
    )


def test_long_values_are_cut_where_their_starts_differ() -> None:
    one, two = (f"simulated, length {n} by rates {'0.5 ' * 15}0.4" for n in (2, 3))
    cut = " by rates 0.5 0.5 0.5 0.5…"
    assert refusal(row(("acceptance", one, two))) == (
        f"they differ in acceptance (simulated, length 2{cut} / simulated, length 3{cut})"
    )
    longer = f"{one} 0.3"
    assert longer in refusal(row(("acceptance", one, longer)))


def test_without_a_difference_there_is_the_reason() -> None:
    assert refusal(row()) == "no prompt in common"
    assert refusal(row(("validity", "a: not all requests succeeded", ""))) == (
        "a: not all requests succeeded"
    )


def test_pairs_that_are_refused_alike_are_told_together() -> None:
    def pair(a: str, b: str, concurrency: int, *differences: tuple[str, str, str]) -> Any:
        refused = "refused" if differences else "faster"
        place = {"a": a, "b": b, "mode": "greedy", "concurrency": concurrency}
        return row(*differences) | place | {"verdict": refused}

    given = [
        one
        for many in (1, 8)
        for one in (
            pair("x", "y", many, ("acceptance", "length 2", "length 4")),
            pair("x", "z", many, ("acceptance", "length 2", "length 6")),
            pair("y", "plain", many),
        )
    ]
    given.append(pair("z", "plain", 8, ("graph_mode", "none", "graphs")))
    assert list(refusals(given, {"y": "why"})) == [
        "Refused, they differ in acceptance: x against why; x against z.",
        "Refused in greedy, 8 at a time, they differ in graph mode (none / graphs): "
        "z against plain.",
    ]


def test_a_hash_is_cut_unless_wanted_whole() -> None:
    assert show(f"gguf {'0a' * 16}") == f"gguf {'0a' * 6}…"
    assert show(f"gguf {'0a' * 16}", whole=True) == f"gguf {'0a' * 16}"
