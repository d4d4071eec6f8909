"""Samples and metrics as flat rows, for CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.load import sample
from orchestrator.load.arrivals import decode_intervals, ttfts
from orchestrator.load.sample import Sample
from orchestrator.report.safe import csv_cell, plain
from orchestrator.rundir import BOOKEND, RunDirectory, block_turns, read_json

Row = dict[str, Any]


def samples(run: RunDirectory) -> Iterator[Row]:
    """Every request of every turn. Times in ms; None is unknown."""
    facts = read_json(run.run_file)
    for arm in facts["arms"]:
        for repeat in (*block_turns(facts.get("blocks", 1)), BOOKEND):
            path = run.turn(arm, repeat) / "samples.jsonl"
            for one in sample.read(path) if path.exists() else []:
                yield {"run": run.path.name} | _sample(one)


def metrics(run: str, result: Mapping[str, Any]) -> Iterator[Row]:
    """Every metric of every arm and phase, one a row."""
    for arm in result["arms"]:
        for mode in arm["modes"]:
            for name, metric in mode["metrics"].items():
                yield {
                    "run": run,
                    "arm": arm["id"],
                    "backend": arm["backend"],
                    "engine_version": arm["engine_version"],
                    "speculation": arm["speculation"],
                    "draft_tokens": arm["draft_tokens"],
                    "mode": mode["mode"],
                    "concurrency": mode["concurrency"],
                    "metric": name,
                    "value": metric["value"],
                    "unit": metric["unit"],
                    "n": metric["n"],
                    "reason": metric.get("reason"),
                }


def to_csv(rows: Sequence[Row]) -> str:
    """With a header; unknown is empty. Text that a spreadsheet would compute gets a quote."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([_cell(value) for value in row.values()])
    return text.getvalue()


def _sample(one: Sample) -> Row:
    good = [one] if one.error is None else []
    interval, ttft = decode_intervals(good), ttfts(good)
    told = one.server
    return {
        "arm": one.arm,
        "turn": one.repeat,
        "mode": one.mode,
        "concurrency": one.concurrency,
        "prompt": one.prompt_id,
        "seed": one.seed,
        "prompt_tokens": one.prompt_tokens,
        "output_tokens": len(one.token_ids),
        "t_send_ns": one.t_send_ns,
        "ttft_ms": 1000 * ttft[0] if ttft else None,
        "tpot_ms": 1000 * interval[0][1] / interval[0][0] if interval else None,
        "decode_tok_s": interval[0][0] / interval[0][1] if interval else None,
        "total_ms": (one.t_end_ns - one.t_send_ns) / 1e6,
        "steps": told.steps if told else None,
        "drafted": told.drafted if told else None,
        "accepted": told.accepted if told else None,
        "finish": one.finish,
        "error": one.error,
    }


def _cell(value: Any) -> Any:
    return csv_cell(plain(value)) if isinstance(value, str) else value
