"""One run read for a report: its result, and of every request what the plots show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.load import sample
from orchestrator.load.arrivals import NS, decode_intervals, ttfts
from orchestrator.load.sample import Sample
from orchestrator.report import safe
from orchestrator.rundir import BOOKEND, RunDirectory, block_turns, read_json

Phase = tuple[str, int]
"""Mode and concurrency."""
POINTS, ROWS = 3000, 1600
"""Requests drawn, and rows written, for all turns of a page together: it must stay small."""


@dataclass(frozen=True)
class Point:
    """One request, or one prompt's requests together. None where none streamed enough to tell."""

    prompt: str
    seed: int
    minutes: float
    """From the run's first request to when this one was sent."""
    ttft_ms: float | None
    tokens: int
    """After the first."""
    seconds: float
    """From the first token to the last."""
    error: bool

    @property
    def tok_s(self) -> float | None:
        return self.tokens / self.seconds if self.seconds else None

    @property
    def tpot_ms(self) -> float | None:
        return 1000 * self.seconds / self.tokens if self.seconds else None


@dataclass(frozen=True)
class Turn:
    """One arm's requests of one phase in one start of its server."""

    arm: str
    repeat: int
    """As RunDirectory.turn counts; BOOKEND is the reference arm's last."""
    phase: Phase
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        if self.repeat == BOOKEND:
            return "again, for drift"
        return "measured" if self.repeat == 1 else f"measured, block {self.repeat - 1}"

    def values(self, name: str) -> list[float]:
        found = (getattr(point, name) for point in self.points)
        return sorted(value for value in found if value is not None)

    def by_prompt(self) -> dict[tuple[str, int], Point]:
        """Requests of one prompt together, as a comparison counts them."""
        found: dict[tuple[str, int], list[Point]] = {}
        for point in self.points:
            found.setdefault((point.prompt, point.seed), []).append(point)
        return {key: _together(points) for key, points in found.items()}


@dataclass(frozen=True)
class RunFacts:
    """What a report of one run is made of. Every string in it is plain."""

    path: Path
    result: Mapping[str, Any]
    run: Mapping[str, Any]
    environment: Mapping[str, Any]
    recipe: str
    turns: tuple[Turn, ...]
    files: tuple[str, ...]
    """Raw files, relative to the run directory."""
    one_clock: bool = field(default=True)
    """False where the machine's clock started anew between turns, as after a restart."""

    @property
    def most_points(self) -> int:
        """Requests drawn of one turn."""
        return max(40, min(400, POINTS // max(1, len(self.turns))))

    @property
    def most_rows(self) -> int:
        """Rows of a table of prompts."""
        return max(20, min(200, ROWS // max(1, len(self.turns))))

    def starts(self, phase: Phase) -> list[Turn]:
        """Every turn of a phase in the order it ran, the one for drift included."""
        mine = [turn for turn in self.turns if turn.phase == phase]
        return sorted(mine, key=lambda turn: turn.points[0].minutes)

    def of(self, phase: Phase) -> list[Turn]:
        """What was measured of each arm, its blocks together."""
        found: dict[str, Turn] = {}
        for turn in self.turns:
            if turn.phase == phase and turn.repeat != BOOKEND:
                before = found[turn.arm].points if turn.arm in found else ()
                found[turn.arm] = replace(turn, repeat=1, points=(*before, *turn.points))
        return list(found.values())


def load(run: RunDirectory, result: Mapping[str, Any]) -> RunFacts:
    """Read the samples of every turn. `result` is what result.build made of the same run.

    Samples of a phase that was cut off are left out, as the result leaves it out.
    """
    facts = safe.inert(read_json(run.run_file))
    measured = {
        (safe.plain(arm["id"]), (safe.plain(mode["mode"]), mode["concurrency"]))
        for arm in result["arms"]
        for mode in arm["modes"]
    }
    turns: list[Turn] = []
    starts: list[tuple[str, int]] = []
    for arm in facts["arms"]:
        for repeat in (*block_turns(facts.get("blocks", 1)), BOOKEND):
            folder = run.turn(arm, repeat)
            path = folder / "samples.jsonl"
            # result.build has read this file before and told of a torn last line.
            samples = sample.read(path, notice=lambda _: None) if path.exists() else []
            if not samples:
                continue
            first = min(one.t_send_ns for one in samples)
            starts.append((_started(folder), first))
            turns += [
                turn
                for turn in _turns(arm, repeat, samples)
                if repeat == BOOKEND or (turn.arm, turn.phase) in measured
            ]
    begin = min((point.minutes for turn in turns for point in turn.points), default=0.0)
    return RunFacts(
        path=run.path,
        result=safe.inert(result),
        run=facts,
        environment=safe.inert(read_json(run.environment_file)),
        recipe=safe.plain(run.recipe_text(), keep="\n\t"),
        turns=tuple(_since(turn, begin) for turn in turns),
        files=tuple(_files(run)),
        one_clock=[first for _, first in sorted(starts)] == sorted(first for _, first in starts),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values, by linear interpolation between closest ranks."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def thin(points: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of them, evenly spread."""
    if len(points) <= most:
        return list(points)
    return [points[index * len(points) // most] for index in range(most)]


def _turns(arm: str, repeat: int, samples: Sequence[Sample]) -> list[Turn]:
    grouped: dict[Phase, list[Point]] = {}
    for one in samples:
        grouped.setdefault((one.mode, one.concurrency), []).append(_point(one))
    return [
        Turn(safe.plain(arm), repeat, (safe.plain(mode), concurrency), tuple(points))
        for (mode, concurrency), points in grouped.items()
    ]


def _point(one: Sample) -> Point:
    good = [one] if one.error is None else []
    interval, ttft = decode_intervals(good), ttfts(good)
    tokens, seconds = interval[0] if interval else (0, 0.0)
    return Point(
        prompt=safe.plain(one.prompt_id),
        seed=one.seed,
        minutes=one.t_send_ns / NS / 60,
        ttft_ms=1000 * ttft[0] if ttft else None,
        tokens=tokens,
        seconds=seconds,
        error=one.error is not None,
    )


def _together(points: Sequence[Point]) -> Point:
    known = sorted(point.ttft_ms for point in points if point.ttft_ms is not None)
    return replace(
        points[0],
        ttft_ms=median(known),
        tokens=sum(point.tokens for point in points),
        seconds=sum(point.seconds for point in points),
        error=any(point.error for point in points),
    )


def _since(turn: Turn, begin: float) -> Turn:
    points = (replace(point, minutes=point.minutes - begin) for point in turn.points)
    return replace(turn, points=tuple(points))


def _started(folder: Path) -> str:
    """UTC, sortable; the last of all where the turn did not end by itself."""
    status = folder / "status.json"
    return str(read_json(status).get("started", "~")) if status.exists() else "~"


def _files(run: RunDirectory) -> list[str]:
    """Files that museorch writes, in a fixed order; overlays link to weights and are left out."""
    top = [run.result_file, run.run_file, run.recipe_file, run.plan_file, run.environment_file]
    found = [path for path in top if path.exists()]
    for name in ("samples.jsonl", "counters.json", "status.json", "gpu.csv", "server.log"):
        found += sorted((run.path / "arms").glob(f"*/*/{name}"))
    return [str(path.relative_to(run.path)) for path in found]
