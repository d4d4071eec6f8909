"""The comparison as a table that fits 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.report import audit, bridge, roofline, safe, verification, words
from orchestrator.report.conditions import UNKNOWN, refusals
from orchestrator.report.headline import headlines
from orchestrator.report.labels import labels

WIDTH = 80
MOST = 16
"""Comparisons of a phase told one by one; drafters against none come first."""
REST = 0.01
"""From here on the two factors leave something of a ratio open, which is told."""
FEW = 3
"""Doubts told one by one."""
FACTORS = (
    "Factors of a ratio: tau, tokens that a step gives; step time, the second arm's step over the "
    "first's; rest, mostly drafts accepted beyond a reply's end."
)
UNIT = re.compile(r"(?<=\d) (?=%|(?:m?s|W|[GT]B/s|J|nats)\b)")
COLUMNS = (
    ("decode_tok_s", "decode", "tok/s", 1),
    ("output_tok_s", "output", "tok/s", 1),
    ("ttft_ms", "TTFT", "ms", 1),
    ("tpot_ms", "TPOT", "ms", 2),
    ("acceptance_length", "tau", "tok/step", 2),
    ("step_time_ms", "step", "ms", 2),
)


def render(result: Mapping[str, Any]) -> str:
    """Tables per mode and concurrency, then verdicts, audit, and what went wrong."""
    result = safe.inert(result)
    blocks = ["\n".join(_head(result))]
    explained = False
    for mode, concurrency in words.phases(result):
        blocks.append("\n".join(_table(result, mode, concurrency)))
        verdicts = list(_verdicts(result, mode, concurrency))
        if verdicts:
            verdicts += hang(words.floor_sentence(result, (mode, concurrency)))
            if not explained and any(" tau" in line for line in verdicts):
                verdicts += hang(FACTORS)
                explained = True
        for split in bridge.sentences(result, (mode, concurrency)):
            verdicts += hang(split)
        for cost in verification.sentences(result, (mode, concurrency)):
            verdicts += hang(cost)
        for line in roofline.brief(result, (mode, concurrency)):
            verdicts += hang(line)
        if verdicts:
            blocks.append("\n".join(verdicts))
    started = [part for line in roofline.startup(result) for part in hang(line)]
    refused = [part for line in refusals(result["comparisons"], {}) for part in hang(line)]
    notes = [*_failures(result), *_doubts(result), *_audit(result), *_drift(result), *started]
    if refused:
        blocks.append("\n".join(refused))
    if notes:
        blocks.append("\n".join(notes))
    answer = [line for told in headlines(result) for line in hang(told, "    ", first="  ")]
    blocks.append("\n".join(["In short:", *answer]))
    return "\n\n".join(blocks) + "\n"


def _head(result: Mapping[str, Any]) -> Iterator[str]:
    state = "" if result["complete"] else "  INCOMPLETE"
    yield f"{result['recipe']}{state}"
    yield from textwrap.wrap(words.setting(result), WIDTH)
    for label in labels(result):
        yield from hang(label)


def _mode(arm: Mapping[str, Any], mode: str, concurrency: int) -> Mapping[str, Any] | None:
    return next(
        (m for m in arm["modes"] if (m["mode"], m["concurrency"]) == (mode, concurrency)), None
    )


def _table(result: Mapping[str, Any], mode: str, concurrency: int) -> Iterator[str]:
    sampling = next(m for m in result["workload"]["modes"] if m["name"] == mode)
    title = f"{mode}: T {sampling['temperature']:g}"
    if sampling["temperature"]:
        title += f", top_p {sampling['top_p']:g}, top_k {sampling['top_k']}"
    yield f"{title}, {concurrency} at a time"
    wide = max(len("arm"), *(len(arm["id"]) for arm in result["arms"]))
    wide = min(wide, WIDTH - 9 * len(COLUMNS) - 4)
    yield f"{'arm':{wide}} {'K':>3}" + "".join(f"{name:>9}" for _, name, _, _ in COLUMNS)
    yield f"{'':{wide}} {'':3}" + "".join(f"{unit:>9}" for _, _, unit, _ in COLUMNS)
    for arm in result["arms"]:
        found = _mode(arm, mode, concurrency)
        k = arm["draft_tokens"] if arm["draft_tokens"] is not None else UNKNOWN
        name = arm["id"]
        if len(name) > wide:  # a name that is cut may be another arm's
            yield name[:WIDTH]
            name = ""
        row = f"{name:{wide}} {k:>3}"
        if found is None:
            yield f"{row}  {arm['status']}"
            continue
        for name, _, _, digits in COLUMNS:
            value = found["metrics"][name]["value"]
            row += f"{UNKNOWN if value is None else format(value, f'.{digits}f'):>9}"
        yield row + ("  !" if found["problems"] else "  ?" if found["warnings"] else "")


def _verdicts(result: Mapping[str, Any], mode: str, concurrency: int) -> Iterator[str]:
    rows = words.in_order(result, (mode, concurrency))
    rows = [row for row in rows if row["verdict"] != "refused"]
    for row in rows[:MOST]:
        pair = f"{row['a']} against {row['b']}: "
        low, high = row["interval"]
        span = f"95 % interval {words.ratio(low)} to {words.ratio(high)}"
        text = f"{pair}{words.ratio(row['ratio'])}x, {row['verdict']} ({span})"
        factors = row["factors"]
        if row["kind"] != "engine-against-engine" or factors["tau"] != 1.0:
            parts = [
                f"{words.ratio(factors[key])} {word}"
                for key, word in (("tau", "tau"), ("step_time", "step time"))
                if factors.get(key) is not None
            ]
            if (rest := factors.get("remainder")) is not None and abs(rest - 1) > REST:
                parts.append(f"{words.ratio(rest)} rest")
            text += f" = {' x '.join(parts)}" if parts else ""
            target, draft = factors.get("target"), factors.get("draft")
            if target is not None and draft != 1.0:
                text += (
                    f", of it {words.ratio(target)} verification x {words.ratio(draft)} drafting"
                )
        yield from hang(f"{text}; {row['reason']}" if row["reason"] else text)
    if len(rows) > MOST:
        yield f"{len(rows) - MOST} more comparisons are in report.md."


def _failures(result: Mapping[str, Any]) -> Iterator[str]:
    for arm in result["arms"]:
        if arm["status"] != "ok":
            yield from hang(f"{arm['id']} {arm['status']}: {arm['reason']}")
        for mode in arm["modes"]:
            for problem in mode["problems"]:
                phase = f"{mode['mode']}, {mode['concurrency']} at a time"
                yield from hang(f"! {arm['id']}, {phase}: {problem}")


def _doubts(result: Mapping[str, Any]) -> Iterator[str]:
    found = list(words.doubts(result))
    if len(found) > FEW:
        found = [
            f"{len(found)} signs that something else disturbed the measurement, all in report.md; "
            f"the first: {found[0]}"
        ]
    for doubt in found:
        yield from hang(f"? {doubt}")


def _audit(result: Mapping[str, Any]) -> Iterator[str]:
    for line in audit.lines(result):
        yield from hang(line, "    ")


def _drift(result: Mapping[str, Any]) -> Iterator[str]:
    found = []
    for row in result["drift"]:
        low, high = row["interval"]
        found.append(
            f"{row['mode']}, {row['concurrency']} at a time {row['ratio']:.3f} "
            f"({low:.3f} to {high:.3f})"
        )
    if found:
        arm = result["drift"][0]["arm"]
        yield from hang(f"Drift of {arm}, last turn over first: {'; '.join(found)}.")


def hang(text: str, indent: str = "  ", *, first: str = "") -> list[str]:
    """Lines of at most WIDTH; a number stays with its unit."""
    kept = UNIT.sub("\u00a0", text)
    lines = textwrap.wrap(
        kept, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )
    return [line.replace("\u00a0", " ") for line in lines] or [text]
