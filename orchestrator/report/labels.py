"""What a whole run, or some of its arms, is no measurement of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.dummy.place import PREFIX

DUMMY = (
    "Dummy weights: random values in the shape of the model. Speeds only; the text is meaningless."
)


def labels(result: Mapping[str, Any]) -> Iterator[str]:
    """Dummy weights, and acceptance that engines were told to simulate, equal ones together."""
    modes = (mode for arm in result["arms"] for mode in arm["modes"])
    if any(str(mode["conditions"]["weights"]).startswith(PREFIX) for mode in modes):
        yield DUMMY
    simulated: dict[str, list[str]] = {}
    for arm in result["arms"]:
        if str(arm["acceptance"]).startswith("simulated"):
            simulated.setdefault(arm["acceptance"], []).append(arm["id"])
    for told, arms in simulated.items():
        yield f"Acceptance is {told}, not earned, and the text is meaningless: {', '.join(arms)}."
