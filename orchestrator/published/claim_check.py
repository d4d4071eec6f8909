"""Published claims against a run: which conditions are shared, and numbers only where all are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from orchestrator.published.claims import Claim, Number, Published, Sampling
from orchestrator.published.explain import same_sampling, texts

State = Literal["shared", "differs", "unknown"]
ESSENTIAL = frozenset({"model", "hardware", "engine", "quantisation"})
"""Without knowing these and the temperature to be the same, a number is about something else."""


@dataclass(frozen=True)
class Condition:
    field: str
    state: State
    claim: str | None
    run: str | None


@dataclass(frozen=True)
class Against:
    """A claimed number beside the measured one."""

    what: str
    claimed: float
    measured: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Check:
    claim: str
    backend: str
    mode: str
    concurrency: int
    """The phase of the run that comes closest to the claim."""
    comparable: bool
    conditions: tuple[Condition, ...]
    against: tuple[Against, ...]

    def of(self, state: State) -> list[Condition]:
        return [condition for condition in self.conditions if condition.state == state]


Arm = tuple[Mapping[str, Any], Mapping[str, Any]]
"""An arm of result.json and one of its modes."""


def check(published: Published, result: Mapping[str, Any]) -> Check | None:
    """The claim against the phase of a run that shares most with it; None for an empty run."""
    checks = [_check(published, result, arms) for arms in _phases(result)]
    return max(
        checks,
        key=lambda c: (c.comparable, -len(c.of("differs")), len(c.of("shared")), len(c.against)),
        default=None,
    )


def check_json(found: Check) -> dict[str, Any]:
    data = asdict(found)
    del data["conditions"]
    return data | {
        state: [asdict(condition) for condition in found.of(state)]
        for state in ("shared", "differs", "unknown")
    }


def _phases(result: Mapping[str, Any]) -> Iterator[list[Arm]]:
    """Arms that ran the same phase on the same engine and quantisation."""
    found: dict[tuple[Any, ...], list[Arm]] = {}
    for arm in result["arms"]:
        for mode in arm["modes"]:
            key = (
                arm["backend"],
                mode["conditions"]["quantisation"],
                mode["mode"],
                mode["concurrency"],
            )
            found.setdefault(key, []).append((arm, mode))
    yield from found.values()


def _check(published: Published, result: Mapping[str, Any], arms: Sequence[Arm]) -> Check:
    conditions = tuple(_conditions(published, arms))
    state = {condition.field: condition.state for condition in conditions}
    comparable = (
        "differs" not in state.values()
        and all(state[name] == "shared" for name in ESSENTIAL)
        and published.claim.conditions.sampling is not None
    )
    arm, mode = arms[0]
    against = tuple(_against(published.claim, result, arms)) if comparable else ()
    return Check(
        published.claim.id,
        arm["backend"],
        mode["mode"],
        mode["concurrency"],
        comparable,
        conditions,
        against,
    )


def _conditions(published: Published, arms: Sequence[Arm]) -> Iterator[Condition]:
    claim = published.claim.conditions
    arm, mode = arms[0]
    run = mode["conditions"]
    claimed = texts(published)

    def condition(name: str, shown: Any, same: bool | None) -> Condition:
        """`same` None: the run cannot tell."""
        if claimed[name] is None or shown is None or same is None:
            state: State = "unknown"
        else:
            state = "shared" if same else "differs"
        return Condition(name, state, claimed[name], None if shown is None else str(shown))

    yield condition("model", run["weights"], _plain(run["weights"]) == _plain(published.model))
    yield condition("hardware", run["hardware"], _hardware(claim.hardware, run["hardware"]))
    yield condition("engine", arm["backend"], claim.engine == arm["backend"])
    yield condition("build", run["engine"], None)
    quantisation = run["quantisation"]
    yield condition(
        "quantisation", quantisation, _plain(claim.quantisation or "") == _plain(quantisation)
    )
    sampled = same_sampling(claim.sampling, _sampling(run["sampling"]))
    yield condition("sampling", run["sampling"], sampled)
    drafts = {m["conditions"]["draft_tokens"] for a, m in arms if a["speculation"] != "none"}
    shown = ", ".join(map(str, sorted(drafts))) or None
    told = published.claim.told("draft_tokens")
    yield condition("draft_tokens", shown, not drafts.isdisjoint(told))
    told = published.claim.told("concurrency")
    alike = None if any(isinstance(one, str) for one in told) else run["concurrency"] in told
    yield condition("concurrency", run["concurrency"], alike)
    for name in ("prompts", "context", "output"):
        yield condition(name, None, None)
    # A peak is no pooled rate, yet close enough to be told beside one.
    alike = None if claim.rate in (None, "highest sustained") else True
    yield condition("rate", "as the claim's", alike)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _hardware(claim: str | None, run: str | None) -> bool | None:
    """Same number of GPUs, and every word of the claim in the run's name for one."""
    if claim is None or run is None:
        return None
    (claim_count, claim_name), (run_count, run_name) = _counted(claim), _counted(run)
    words = set(re.findall(r"[a-z0-9]+", run_name.lower()))
    wanted = set(re.findall(r"[a-z0-9]+", claim_name.lower()))
    return claim_count == run_count and wanted <= words


def _counted(text: str) -> tuple[int, str]:
    found = re.match(r"(\d+) x (.*)", text)
    return (int(found[1]), found[2]) if found else (1, text)


def _sampling(run: str) -> Sampling:
    found = re.match(r"T (\S+), top_p (\S+), top_k (\d+)", run)
    assert found is not None, "result.json says how it sampled"
    return Sampling(temperature=float(found[1]), top_p=float(found[2]), top_k=int(found[3]))


def _against(claim: Claim, result: Mapping[str, Any], arms: Sequence[Arm]) -> Iterator[Against]:
    for number in claim.numbers:
        for arm, mode in arms:
            if not _same_subject(number, claim, arm, mode) or number.at is not None:
                continue
            total = (number.rate or claim.conditions.rate) == "all streams together"
            rate = mode["metrics"]["output_tok_s" if total else "decode_tok_s"]["value"]
            length = mode["metrics"]["acceptance_length"]["value"]
            if number.value is not None and rate is not None:
                yield Against(f"{arm['id']}, tok/s", number.value, rate)
            if number.acceptance_length is not None and length is not None:
                yield Against(f"{arm['id']}, tokens/step", number.acceptance_length, length)
    ids = {
        arm["id"]: arm["speculation"]
        for arm, mode in arms
        if mode["conditions"]["acceptance"] == "real"
    }
    _, first = arms[0]
    for ratio in claim.ratios:
        for row in result["comparisons"]:
            if (
                (row["mode"], row["concurrency"]) == (first["mode"], first["concurrency"])
                and (ids.get(row["a"]), ids.get(row["b"])) == (ratio.a, ratio.b)
                and row["ratio"] is not None
                and not row["certificate"]["allowed"]
                and ratio.at is None
            ):
                low, high = row["interval"]
                what = f"{row['a']} over {row['b']}"
                yield Against(what, ratio.value, row["ratio"], (low, high))


def _same_subject(
    number: Number, claim: Claim, arm: Mapping[str, Any], mode: Mapping[str, Any]
) -> bool:
    run = mode["conditions"]
    if arm["speculation"] != number.speculation or mode["problems"] or run["acceptance"] != "real":
        return False
    # Two DSpark heads exist; a number of one says nothing about the other.
    if number.drafter is not None and _plain(number.drafter) not in _plain(run["drafter"]):
        return False
    if number.concurrency not in (None, mode["concurrency"]):
        return False
    k = number.draft_tokens or claim.conditions.draft_tokens
    return arm["speculation"] == "none" or k in (None, run["draft_tokens"])
