"""Two arms to one verdict: a ratio with its interval and its causes, or a refusal.

The ratio is of pooled decode rates, paired by prompt: the bootstrap draws prompts, and both arms'
timings of a drawn prompt come along. Factors follow tok/s = tau / t_step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.comparing.certify import Certificate, Difference
from orchestrator.comparing.interval import Ratio, Row, pooled_ratio, prompts_to_show
from orchestrator.load.arrivals import decode_interval
from orchestrator.load.sample import Sample
from orchestrator.measuring.metrics import Phase, measure
from orchestrator.measuring.steps import acceptance_length, step_time

Verdict = Literal["faster", "slower", "no difference shown", "refused"]
MIN_PAIRS = 5
BASE_FLOOR = 0.01
"""Ratios closer to 1 than this are never called a difference; drift raises it."""
OUTPUT = ("output_tok_s",)
EFFECT = 0.05
"""The relative change whose number of prompts is told."""


@dataclass(frozen=True)
class Comparison:
    a: str
    b: str
    mode: str
    concurrency: int
    kind: str
    verdict: Verdict
    ratio: Ratio | None
    certificate: Certificate
    factors: Mapping[str, float | None] = field(default_factory=dict)
    reason: str | None = None
    throughput_ratio: float | None = None
    """Of all output tokens over the wall time of the phase; `ratio` is what each request sees."""
    prompts_to_show: int | None = None
    """Prompts with which a difference of EFFECT would be shown; None where `floor` is above it."""
    floor: float | None = None
    """The relative change up to which no difference is shown."""
    floor_from: str | None = None
    """What showed it: `drift` or `blocks`; `least` where repeats show less or nothing repeats."""
    unsplit: str | None = None
    """Why factors do not tell drafting and verification apart."""


def decode_ratio(a: Sequence[Sample], b: Sequence[Sample]) -> Ratio | None:
    """Decode rate of a over that of b; None below MIN_PAIRS prompts timed on both sides.

    A prompt that was sent several times counts once, with all its tokens and all its time.
    """
    left, right = _by_prompt(a), _by_prompt(b)
    rows: list[Row] = []
    for prompt, one in left.items():
        two = right.get(prompt, [])
        if len(one) == len(two):
            rows.append((*_total(one), *_total(two)))
    return pooled_ratio(rows) if len(rows) >= MIN_PAIRS else None


Interval = tuple[int, float]


def _by_prompt(samples: Sequence[Sample]) -> dict[tuple[str, int], list[Interval]]:
    """Tokens and seconds of each timed request, by prompt and seed."""
    found: dict[tuple[str, int], list[Interval]] = {}
    for sample in samples:
        if (timed := decode_interval(sample)) is not None:
            found.setdefault((sample.prompt_id, sample.seed), []).append(timed)
    return found


def _total(intervals: Sequence[Interval]) -> tuple[float, float]:
    return float(sum(n for n, _ in intervals)), sum(s for _, s in intervals)


def factorise(a: Phase, b: Phase, ratio: float) -> dict[str, float | None]:
    """`ratio = tau x step_time x remainder`.

    tau is the ratio of acceptance lengths, step_time that of step times (b over a). The remainder
    is near 1: tau counts every accepted draft, the rate only those inside the output length.
    """
    factors: dict[str, float | None] = {"tau": None, "step_time": None, "remainder": None}
    tau_a, tau_b = _tau(a), _tau(b)
    step_a, step_b = (_known(step_time(phase)) for phase in (a, b))
    if tau_a is not None and tau_b is not None:
        factors["tau"] = tau_a / tau_b
    if step_a is not None and step_b is not None:
        factors["step_time"] = step_b / step_a
    if factors["tau"] is not None and factors["step_time"] is not None:
        factors["remainder"] = ratio / (factors["tau"] * factors["step_time"])
    return factors


def compare(
    a: str,
    b: str,
    phases: tuple[Phase, Phase],
    *,
    mode: str,
    concurrency: int,
    kind: str,
    certificate: Certificate,
    problems: Sequence[str],
    floors: Mapping[str, float],
) -> Comparison:
    """The comparison of arm a with arm b.

    `problems` are reasons why an arm's numbers are no speed result; any of them refuses. `floors`
    are relative changes that count as no difference, by what showed them; the largest holds.
    """

    def refused(reason: str, extra: Certificate = certificate) -> Comparison:
        return Comparison(a, b, mode, concurrency, kind, "refused", None, extra, reason=reason)

    if not certificate.matched:
        return refused("conditions differ: " + "; ".join(d.field for d in certificate.differences))
    if problems:
        invalid = tuple(Difference("validity", problem, "valid") for problem in problems)
        return refused("; ".join(problems), Certificate(False, invalid))
    ratio = decode_ratio(phases[0].samples, phases[1].samples)
    if ratio is None:
        return refused(f"fewer than {MIN_PAIRS} prompts with timings on both sides")
    verdict: Verdict = "no difference shown"
    floor, floor_from = max([(BASE_FLOOR, "least"), *((x, name) for name, x in floors.items())])
    threshold = 1 + floor
    if ratio.low > 1 and ratio.value > threshold:
        verdict = "faster"
    elif ratio.high < 1 and ratio.value < 1 / threshold:
        verdict = "slower"
    factors = factorise(*phases, ratio.value)
    needed = prompts_to_show(EFFECT, ratio.spread, floor)
    return Comparison(
        a,
        b,
        mode,
        concurrency,
        kind,
        verdict,
        ratio,
        certificate,
        factors,
        _bridge(certificate),
        throughput_ratio=_throughput_ratio(*phases),
        prompts_to_show=needed,
        floor=floor,
        floor_from=floor_from,
    )


def _throughput_ratio(a: Phase, b: Phase) -> float | None:
    left, right = (measure(phase, OUTPUT)["output_tok_s"].value for phase in (a, b))
    return left / right if left is not None and right else None


def _bridge(certificate: Certificate) -> str | None:
    if not certificate.allowed:
        return None
    # That files differ follows from what they hold.
    told = [d.field for d in certificate.allowed if not d.field.endswith("_files")]
    names = ", ".join(told or (d.field for d in certificate.allowed))
    return f"a bridge: {names} may differ here, so this is no speedup of what is compared"


def _tau(phase: Phase) -> float | None:
    if phase.speculation == "none":
        return 1.0
    return _known(acceptance_length(phase))


def _known(found: tuple[float, int] | str) -> float | None:
    return None if isinstance(found, str) else found[0]
