"""Acceptance drawn by the engine instead of earned by the drafter.

For the speed of a given acceptance, and for equal acceptance on two engines. What such an arm
writes is meaningless, so it is never compared with a real one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backends.errors import InputError


@dataclass(frozen=True)
class Simulated:
    """The marginal acceptance by position, or the mean acceptance length.

    Both: the length that these rates come to, for an engine that takes no rates.
    """

    rates: tuple[float, ...] | None = None
    length: float | None = None

    @property
    def expected_length(self) -> float:
        """1 + the sum of the marginals, or the length itself."""
        if self.length is not None:
            return self.length
        assert self.rates is not None
        return 1 + sum(self.rates)

    def __str__(self) -> str:
        """The length first: arms of equal length are alike, however it comes about."""
        told = f"simulated, length {self.expected_length:.4g}"
        if self.rates is None:
            return told
        word = "by" if self.length is None else "of"
        return f"{told} {word} rates {' '.join(f'{rate:g}' for rate in self.rates)}"


def fitted(simulated: Simulated, draft_tokens: int | None, *, rates: bool) -> Simulated:
    """What an engine is told: rates of its own K positions, or their length where it takes that.

    A marginal rate says nothing of the positions after it, so one list serves every smaller K.
    Raises InputError for what does not go with the K.
    """
    k = draft_tokens
    if k is None:
        raise InputError("acceptance is simulated, but the arm has no drafter.")
    if simulated.rates is None:
        if not 1 <= simulated.expected_length <= k + 1:
            raise InputError(
                f"a simulated acceptance length of {simulated.expected_length:g} is not within 1 "
                f"to {k + 1}."
            )
        return simulated
    if len(simulated.rates) < k:
        raise InputError(
            f"{len(simulated.rates)} simulated rates for {k} drafts.",
            fix="Give a rate for each draft, or set draft_tokens.",
        )
    cut = Simulated(rates=simulated.rates[:k])
    return cut if rates else replace(cut, length=cut.expected_length)
