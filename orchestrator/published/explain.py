"""Why two published claims can or cannot be compared: condition by condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.published.claims import Published, Sampling


@dataclass(frozen=True)
class Pair:
    """One condition of two claims, as text; None is not published."""

    field: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class Explanation:
    a: Published
    b: Published
    differs: tuple[Pair, ...]
    unknown: tuple[Pair, ...]
    shared: tuple[Pair, ...]

    @property
    def comparable(self) -> bool:
        return not self.differs and not self.unknown


def explain(a: Published, b: Published) -> Explanation:
    """Why two claims can or cannot be compared, condition by condition."""
    left, right = texts(a), texts(b)
    found: dict[bool | None, list[Pair]] = {False: [], None: [], True: []}
    for name, one in left.items():
        two = right[name]
        same = None if one is None or two is None else one == two
        if name == "sampling":
            same = same_sampling(a.claim.conditions.sampling, b.claim.conditions.sampling)
        found[same].append(Pair(name, one, two))
    return Explanation(a, b, *(tuple(found[same]) for same in (False, None, True)))


def same_sampling(a: Sampling | None, b: Sampling | None) -> bool | None:
    """None where one of them leaves open what the other one says or leaves open too."""
    if a is None or b is None:
        return None
    if a.temperature != b.temperature:
        return False
    if a.temperature == 0:
        return True
    pairs = [(a.top_p, b.top_p), (a.top_k, b.top_k)]
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return False
    return None if any(None in pair for pair in pairs) else True


def texts(published: Published) -> dict[str, str | None]:
    """Every condition as it is shown; None where it was not published."""
    claim = published.claim
    values: dict[str, Any] = dict(claim.conditions)
    for name in ("draft_tokens", "concurrency"):
        values[name] = ", ".join(map(str, claim.told(name))) or None
    shown = {name: None if value is None else str(value) for name, value in values.items()}
    return {"model": published.model, **shown}
