"""Acceptance drawn by the engine instead of earned by the drafter.

For the speed of a given acceptance, and for equal acceptance on two engines. What such an arm
writes is meaningless, so it is never compared with a real one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from backends.base import Device, LaunchPlan
from backends.errors import InputError

SPECULATIVE_CONFIG = "--speculative-config"


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


LENGTH_ONLY = frozenset({"sglang"})
"""Engines that simulate a length and no rates by position."""


def fitted(simulated: Simulated, backend: str, draft_tokens: int | None) -> Simulated:
    """What the engine is told: rates of its own K positions, or their length where it takes that.

    A marginal rate says nothing of the positions after it, so one list serves every smaller K.
    Raises InputError for a list that is too short.
    """
    if simulated.rates is None or draft_tokens is None:
        return simulated
    if len(simulated.rates) < draft_tokens:
        raise InputError(
            f"{len(simulated.rates)} simulated rates for {draft_tokens} drafts of {backend}.",
            fix="Give a rate for each draft, or set draft_tokens.",
        )
    cut = Simulated(rates=simulated.rates[:draft_tokens])
    return replace(cut, length=cut.expected_length) if backend in LENGTH_ONLY else cut


def simulate(plan: LaunchPlan, simulated: Simulated, device: Device) -> LaunchPlan:
    """The plan of a drafted arm with acceptance simulated. Raises InputError where it cannot be."""
    k = plan.draft_tokens
    if (plan.backend, device) == ("vllm", "cpu"):
        # Seen on 0.32.0: "Synthetic acceptance not supported with CPU sampling".
        raise InputError("vLLM cannot simulate acceptance on a CPU.")
    if k is None:
        raise InputError("acceptance is simulated, but the arm has no drafter.")
    simulated = fitted(simulated, plan.backend, k)
    if simulated.length is not None and not 1 <= simulated.length <= k + 1:
        raise InputError(
            f"a simulated acceptance length of {simulated.length:g} is not within 1 to {k + 1}."
        )
    return _ENGINES[plan.backend](plan, simulated)


def _vllm(plan: LaunchPlan, simulated: Simulated) -> LaunchPlan:
    """Source: RejectionSampleMethod and the fields below it in vllm/config/speculative.py."""
    at = plan.argv.index(SPECULATIVE_CONFIG) + 1
    config = json.loads(plan.argv[at]) | {"rejection_sample_method": "synthetic"}
    if simulated.rates is not None:
        config["synthetic_acceptance_rates"] = list(simulated.rates)
    else:
        config["synthetic_acceptance_length"] = simulated.length
    return replace(plan, argv=(*plan.argv[:at], json.dumps(config), *plan.argv[at + 1 :]))


def _llamacpp(plan: LaunchPlan, simulated: Simulated) -> LaunchPlan:
    """Source: common/arg.cpp."""
    if simulated.rates is not None:
        more = ("--spec-synth-rates", ",".join(f"{rate:g}" for rate in simulated.rates))
    else:
        more = ("--spec-synth-len", f"{simulated.length:g}")
    return replace(plan, argv=(*plan.argv, *more))


def _sglang(plan: LaunchPlan, simulated: Simulated) -> LaunchPlan:
    """Source: srt/environ.py and srt/speculative/spec_utils.py.

    The length is drawn anew for each step, rounded up or down, and counts the token after the
    drafts, as elsewhere.
    """
    env = {
        **plan.env,
        "SGLANG_SIMULATE_ACC_LEN": f"{simulated.expected_length:g}",
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
    }
    return replace(plan, env=env)


_ENGINES: Mapping[str, Callable[[LaunchPlan, Simulated], LaunchPlan]] = {
    "vllm": _vllm,
    "llamacpp": _llamacpp,
    "sglang": _sglang,
}
