"""A ratio between two engines that also differ in quantisation, split at an arm between them.

    a / b = (a / via) x (via / b)

`via` shares its engine with one and its quantisation with the other. So one factor is the engine's
part and the other the quantisation's. All three are taken on the same prompts, so the product holds
exactly. Such a split says where a difference comes from; it is no speedup of anything.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.comparing.blocks import Measured
from orchestrator.comparing.certify import certify, kind_of
from orchestrator.comparing.compare import Comparison, compare
from orchestrator.load.arrivals import decode_intervals
from orchestrator.measuring.metrics import Phase

Floor = Callable[[Measured], float]
"""Of a phase, the relative change up to which no difference is shown."""
BASE = "bf16"
"""The quantisation that others are measured against."""


@dataclass(frozen=True)
class Split:
    """`whole` is of a over b; `reason` says why there is no split."""

    via: str
    whole: Comparison
    engine: Comparison
    quantisation: Comparison

    @property
    def reason(self) -> str | None:
        parts = (self.engine, self.quantisation, self.whole)
        refused = [part for part in parts if part.ratio is None]
        return f"{refused[0].a} against {refused[0].b}: {refused[0].reason}" if refused else None


def splits(measured: Sequence[Measured], allow: Collection[str], floor: Floor) -> Iterator[Split]:
    """Every split there is an arm for, where the recipe allows quantisation to differ."""
    if "quantisation" not in allow:
        return
    for a, b in itertools.permutations(measured, 2):
        if _place(a) != _place(b) or _engine(a) == _engine(b):
            continue
        if _quantisation(b) != BASE or _quantisation(a) == BASE:
            continue
        for via in measured:
            if _place(via) != _place(a):
                continue
            pair = (_engine(via), _quantisation(via))
            if pair == (_engine(a), _quantisation(b)):
                yield _split(a, via, b, allow, floor, engine_first=False)
            elif pair == (_engine(b), _quantisation(a)):
                yield _split(a, via, b, allow, floor, engine_first=True)


def _split(
    a: Measured,
    via: Measured,
    b: Measured,
    allow: Collection[str],
    floor: Floor,
    *,
    engine_first: bool,
) -> Split:
    phases = dict(zip("avb", _shared([a.phase, via.phase, b.phase]), strict=True))

    def part(left: Measured, right: Measured, names: str) -> Comparison:
        kind = kind_of(left.conditions, right.conditions)
        return compare(
            left.arm,
            right.arm,
            (phases[names[0]], phases[names[1]]),
            mode=a.mode,
            concurrency=a.concurrency,
            kind=kind,
            certificate=certify(left.conditions, right.conditions, kind, allow),
            problems=[f"{x.arm}: {problem}" for x in (left, right) for problem in x.problems],
            floors={"drift": floor(a)},
        )

    first, second = part(a, via, "av"), part(via, b, "vb")
    engine, quantisation = (first, second) if engine_first else (second, first)
    return Split(via.arm, part(a, b, "ab"), engine, quantisation)


def _shared(phases: Sequence[Phase]) -> list[Phase]:
    """Each with the requests only that all of them timed equally often."""
    counts = [
        Counter((s.prompt_id, s.seed) for s in phase.samples if decode_intervals([s]))
        for phase in phases
    ]
    keys = {key for key, often in counts[0].items() if all(c[key] == often for c in counts)}
    return [
        replace(phase, samples=[s for s in phase.samples if (s.prompt_id, s.seed) in keys])
        for phase in phases
    ]


def _place(one: Measured) -> tuple[Any, ...]:
    conditions = one.conditions
    return one.mode, one.concurrency, conditions["speculation"], conditions["draft_tokens"]


def _engine(one: Measured) -> str:
    return str(one.conditions["backend"])


def _quantisation(one: Measured) -> str:
    return str(one.conditions["quantisation"])


def split_json(split: Split) -> dict[str, Any]:
    whole = split.whole
    return {
        "a": whole.a,
        "b": whole.b,
        "via": split.via,
        "mode": whole.mode,
        "concurrency": whole.concurrency,
        "reason": split.reason,
        **{
            name: _part_json(getattr(split, name)) if split.reason is None else None
            for name in ("whole", "engine", "quantisation")
        },
    }


def _part_json(part: Comparison) -> dict[str, Any]:
    assert part.ratio is not None
    return {
        "a": part.a,
        "b": part.b,
        "verdict": part.verdict,
        "ratio": part.ratio.value,
        "interval": [part.ratio.low, part.ratio.high],
        "pairs": part.ratio.pairs,
        "label": part.reason,
    }
