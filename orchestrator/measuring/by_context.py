"""Speed and acceptance by length of the prompt: one pooled number hides what long contexts cost."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict, replace
from typing import Any

from orchestrator.load.sample import Sample
from orchestrator.measuring.metrics import Measurement, Phase, measure
from orchestrator.measuring.speculation import acceptance_length_interval

EDGES = (0, 1024, 4096, 16_384, 65_536)
"""Prompt tokens at which a bucket begins; the last one is open."""
SHOWN = ("decode_tok_s", "tpot_ms", "ttft_ms", "acceptance_length_per_request")


def by_context(phase: Phase) -> list[dict[str, Any]]:
    """The filled buckets of a phase, where there is more than one.

    Counters cover the whole phase, so acceptance is what requests tell themselves.
    """
    buckets: dict[int, list[Sample]] = {}
    for sample in phase.samples:
        buckets.setdefault(bisect_right(EDGES, sample.prompt_tokens) - 1, []).append(sample)
    if len(buckets) < 2:
        return []
    found = []
    for place, inside in sorted(buckets.items()):
        measured = measure(replace(phase, samples=inside, record=None), SHOWN)
        pooled = _pooled(replace(phase, samples=inside))
        found.append(
            {
                "from": EDGES[place],
                "to": EDGES[place + 1] if place + 1 < len(EDGES) else None,
                "requests": len(inside),
                "metrics": {name: _json(measured[name]) for name in SHOWN}
                | {"acceptance_length": _json(pooled)},
                "acceptance_length_interval": acceptance_length_interval(inside)
                if phase.speculation != "none"
                else None,
            }
        )
    return found


def _pooled(phase: Phase) -> Measurement:
    unit = "tokens/step"
    if phase.speculation == "none":
        return Measurement(None, unit, 0, "no speculation")
    steps = accepted = 0
    for sample in phase.samples:
        told = sample.server
        if told is None or told.steps is None or told.accepted is None:
            return Measurement(None, unit, 0, "not every request tells its verification steps")
        steps, accepted = steps + told.steps, accepted + told.accepted
    if steps == 0:
        return Measurement(None, unit, 0, "nothing was drafted")
    return Measurement(1 + accepted / steps, unit, steps)


def _json(measurement: Measurement) -> dict[str, Any]:
    data = asdict(measurement)
    return data if data["reason"] else {k: v for k, v in data.items() if k != "reason"}
