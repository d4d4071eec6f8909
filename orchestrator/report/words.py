"""Names, numbers and verdicts as sentences; the same in the page and in Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from backends import BACKENDS
from orchestrator.report.conditions import UNKNOWN as UNKNOWN
from orchestrator.report.conditions import refusal, refusals
from orchestrator.report.labels import labels

ENGINES = {name: backend.title for name, backend in BACKENDS.items()}
DRAFTERS = {"dflash": "DFlash", "dspark": "DSpark"}
KIND_ORDER = (
    "drafter-against-none",
    "drafter-against-drafter",
    "none-against-none",
    "engine-against-engine",
)
METRICS = (
    ("decode_tok_s", "Decode rate", 1),
    ("output_tok_s", "Output throughput", 1),
    ("ttft_ms", "TTFT, median", 1),
    ("ttft_p95_ms", "TTFT, 95th percentile", 1),
    ("tpot_ms", "TPOT, median", 2),
    ("acceptance_length", "Acceptance length, pooled", 2),
    ("acceptance_length_per_request", "Acceptance length, mean of requests", 2),
    ("draft_utilisation", "Draft utilisation", 3),
    ("step_time_ms", "Step time", 2),
    ("draft_time_ms", "of which drafting", 2),
    ("target_time_ms", "of which the rest", 2),
)
"""(name in result.json, label, decimals)."""
SIMULATED = re.compile(r"simulated, length (\S+)")
"""Acceptance that an engine was given: a part of what an arm is, and no merit of its drafter."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def number(value: float | None, decimals: int) -> str:
    return UNKNOWN if value is None else f"{value:,.{decimals}f}"


def ratio(value: float) -> str:
    """Two decimals, and three below 0.1, where two would say little."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def arm_names(result: Mapping[str, Any]) -> dict[str, str]:
    """Arm id to words, with K or else the id added where the words do not tell two arms apart."""
    found = [(arm["id"], _arm_words(arm), arm["draft_tokens"]) for arm in result["arms"]]
    often = Counter(words for _, words, _ in found)
    with_k = Counter((words, k) for _, words, k in found)
    return {
        name: words
        if often[words] == 1
        else f"{words} K {k}"
        if with_k[words, k] == 1 and k is not None
        else f"{words} ({name})"
        for name, words, k in found
    }


def _arm_words(arm: Mapping[str, Any]) -> str:
    engine = ENGINES.get(arm["backend"], arm["backend"])
    drafter = arm["speculation"]
    if drafter == "none":
        return f"plain {engine}"
    drawn = SIMULATED.match(arm["acceptance"])
    given = f" at simulated tau {drawn[1]}" if drawn else ""
    return f"{engine} with {DRAFTERS[drafter]}{given}"


def phases(result: Mapping[str, Any]) -> list[tuple[str, int]]:
    """(mode, concurrency) of everything measured, in the order it was measured."""
    found = [(m["mode"], m["concurrency"]) for arm in result["arms"] for m in arm["modes"]]
    return list(dict.fromkeys(found))


def phase_title(result: Mapping[str, Any], mode: str, concurrency: int) -> str:
    """For instance `temperature: T 1, top-p 0.95, top-k 64; 4 requests at a time`."""
    known = {row["name"]: row for row in result["workload"]["modes"]}
    title = mode
    if mode in known:
        row = known[mode]
        title += f": T {row['temperature']:g}"
        if row["temperature"]:
            title += f", top-p {row['top_p']:g}, top-k {row['top_k']}"
    return f"{title}; {concurrency} {'request' if concurrency == 1 else 'requests'} at a time"


def when(utc: str) -> str:
    """`2026-11-30T19:45:11Z` as `2026-11-30 19:45 UTC`."""
    return f"{utc[:10]} {utc[11:16]} UTC"


def setting(result: Mapping[str, Any]) -> str:
    """What ran where, in one line."""
    work = result["workload"]
    length = "exactly" if work["stop"] == "fixed" else "up to"
    counts = work["count"] if isinstance(work["count"], list) else [work["count"]]
    *most, last = map(str, counts)
    told = f"{', '.join(most)} or {last}" if most else last
    return (
        f"{told} {'prompt' if counts == [1] else 'prompts'}, {length} "
        f"{work['output_tokens']} tokens each, on {result['hardware'] or 'unknown hardware'}"
    )


def in_order(result: Mapping[str, Any], phase: tuple[str, int]) -> list[Mapping[str, Any]]:
    """Comparisons of a phase: drafter against none first, then drafters, then engines."""
    return sorted(
        (row for row in result["comparisons"] if (row["mode"], row["concurrency"]) == phase),
        key=lambda row: KIND_ORDER.index(row["kind"]),
    )


def sentence(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """One comparison in words."""
    a, b = names.get(row["a"], row["a"]), names.get(row["b"], row["b"])
    if row["verdict"] == "refused":
        return f"{a} against {b} is refused: {refusal(row)}."
    low, high = row["interval"]
    span = f"95 % interval {ratio(low)} to {ratio(high)}"
    bridge = f" This is {row['reason']}." if row["reason"] else ""
    if row["verdict"] == "no difference shown":
        inside = low <= 1 <= high
        why = "" if inside else f"; changes up to {change(row['floor'])} may be the machine's"
        return (
            f"{a} against {b}: no difference shown ({ratio(row['ratio'])}x, {span}{why}).{bridge}"
        )
    return f"{a} is {ratio(row['ratio'])}x as fast as {b} here, {row['verdict']}, {span}.{bridge}"


def verdicts(
    result: Mapping[str, Any], phase: tuple[str, int], names: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """(verdict, sentence) of each pair with a ratio, then of each reason why others have none."""
    rows = in_order(result, phase)
    for row in rows:
        if row["verdict"] != "refused":
            yield row["verdict"], sentence(row, names)
    for told in refusals(rows, names):
        yield "refused", told


def floor(result: Mapping[str, Any], mode: str, concurrency: int) -> float:
    """The relative change that counts as no difference in this phase; 0 where unknown."""
    return max(
        (
            row["floor"]
            for row in result["comparisons"]
            if (row["mode"], row["concurrency"]) == (mode, concurrency) and row["floor"] is not None
        ),
        default=0.0,
    )


def troubles(result: Mapping[str, Any]) -> Iterator[str]:
    """What was not real, arms that did not run, and phases whose numbers are no speed result."""
    yield from labels(result)
    for arm in result["arms"]:
        if arm["status"] != "ok":
            yield f"{arm['id']} {arm['status']}: {arm['reason']}"
        for mode in arm["modes"]:
            for problem in mode["problems"]:
                yield f"{arm['id']}, {mode['mode']}, {mode['concurrency']} at a time: {problem}"


def doubts(result: Mapping[str, Any]) -> Iterator[str]:
    """What may have disturbed an arm: the worst of its phases, and the drift that answers it."""
    for arm in result["arms"]:
        alike: dict[str, dict[tuple[str, int], str]] = {}
        for mode in arm["modes"]:
            for text in mode["warnings"]:
                phase = (mode["mode"], mode["concurrency"])
                alike.setdefault(NUMBER.sub("", text), {})[phase] = text
        for found in alike.values():
            name, concurrency = max(found, key=lambda phase: _numbers(found[phase]))
            also = f" (likewise in {len(found) - 1} more)" if len(found) > 1 else ""
            yield (
                f"{arm['id']}, {name}, {concurrency} at a time{also}: "
                f"{found[name, concurrency]}{_repeated(result, arm['id'], found)}"
            )


def _numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


def _repeated(result: Mapping[str, Any], arm: str, phases: Collection[tuple[str, int]]) -> str:
    """How an arm decoded when it ran again; empty where it did not."""
    found = [
        row["ratio"]
        for row in result["drift"]
        if row["arm"] == arm and (row["mode"], row["concurrency"]) in phases
    ]
    if not found:
        return ""
    least, most = f"{min(found):.3f}", f"{max(found):.3f}"
    return f"; run again, it decoded at {least if least == most else f'{least} to {most}'}x this"


def drift_sentences(result: Mapping[str, Any], phase: tuple[str, int]) -> Iterator[str]:
    """What the reference arm's two turns showed of the machine, and what follows from it."""
    for row in result["drift"]:
        if (row["mode"], row["concurrency"]) != phase:
            continue
        text = (
            f"{row['arm']} ran first and last: its last turn was {ratio(row['ratio'])}x its first"
        )
        if row["interval"]:
            low, high = row["interval"]
            text += f", 95 % interval {ratio(low)} to {ratio(high)}"
        yield f"{text}."


def change(share: float) -> str:
    """A relative change: in per cent, as a factor where it is more than double."""
    return f"{100 * share:.1f} %" if share < 1 else f"{1 + share:.1f}x"


FLOORS = {
    "drift": "that is how far the reference arm was off when it ran again",
    "blocks": "that is how far the blocks of the same pair lie apart",
    "least": "repeats show no more than that, or nothing was repeated",
}


def floor_sentence(result: Mapping[str, Any], phase: tuple[str, int]) -> str:
    """What a change must exceed to be called a difference in this phase, and why."""
    rows = [row for row in in_order(result, phase) if row["floor"] is not None]
    if not rows:
        return "Nothing was compared, so there is no floor."
    least, most = (one(rows, key=lambda row: float(row["floor"])) for one in (min, max))
    each = f", in some pairs {change(most['floor'])}" if most["floor"] > least["floor"] else ""
    why = dict.fromkeys(FLOORS[row["floor_from"]] for row in (least, most))
    return f"Below {change(least['floor'])}{each} no difference is shown: {'; '.join(why)}."
