"""vLLM's batch arithmetic: how many tokens are left to schedule once drafting slots are taken off.

Up to 0.31 the scheduler's budget is max_num_batched_tokens less the slots of one sequence times
max_num_seqs. From 0.32 the batch must only hold the slots of one sequence and a token more.
Slots a sequence: DFlash K, DSpark K - 1; none from 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator

from backends.base import Finding, ServeSpec
from backends.patch import parse_version

MIN_BATCHED_TOKENS = 8192


def batched_tokens(spec: ServeSpec) -> int:
    """The `--max-num-batched-tokens` museorch gives: no more than the slots hold.

    When it warms up, vLLM shares a whole batch out over its slots and takes for granted that each
    part fits. Seen on a GPU with 0.33.0, a batch of 8320 for 8 slots of 1024 tokens: a warning
    that it "may lead to unexpected behavior", then an illegal memory access.
    """
    wanted = max(MIN_BATCHED_TOKENS, spec.context_length) + _reserved(spec, spec.slots)
    return min(wanted, spec.context_length * spec.slots)


def _reserved(spec: ServeSpec, sequences: int) -> int:
    """What the release takes off a batch."""
    if spec.drafter is None or spec.draft_tokens is None:
        return 0
    slots = _slots(spec.engine_version, spec.drafter.family, spec.draft_tokens)
    return slots * (sequences if parse_version(spec.engine_version) < parse_version("0.32") else 1)


def scheduled_tokens(spec: ServeSpec) -> Iterator[Finding]:
    """What is left when engine arguments change the batch or the number of sequences."""
    batch = _given(spec.extra_args, "--max-num-batched-tokens", batched_tokens(spec))
    sequences = _given(spec.extra_args, "--max-num-seqs", spec.slots)
    if spec.drafter is None or spec.draft_tokens is None or batch is None or sequences is None:
        return
    slots = _slots(spec.engine_version, spec.drafter.family, spec.draft_tokens)
    reserved = _reserved(spec, sequences)
    words = f"{batch} - {slots} x {sequences}" if reserved > slots else f"{batch} - {slots}"
    left = batch - reserved
    enough = min(MIN_BATCHED_TOKENS, spec.context_length * sequences - reserved)
    fewer = max(1, (batch - 1) // max(1, slots))
    if left <= 0:
        yield Finding(
            "error",
            "scheduled-tokens",
            f"vLLM {spec.engine_version} would have {left} tokens to schedule ({words}).",
            f"Use --max-num-batched-tokens {enough + reserved}"
            + (f", or --max-num-seqs {min(64, fewer)}." if reserved > slots else "."),
        )
    elif left < enough:
        yield Finding(
            "warning",
            "scheduled-tokens",
            f"only {left} tokens a step are left to schedule ({words}), which slows prefill.",
            f"Use --max-num-batched-tokens {enough + reserved}.",
        )


def _slots(version: str, family: str, draft_tokens: int) -> int:
    if parse_version(version) >= parse_version("0.33"):
        return 0
    return draft_tokens - (family == "dspark")


def _given(words: tuple[str, ...], flag: str, default: int) -> int | None:
    """The last value of `flag` among `words`; None where it is no number."""
    value = str(default)
    for at, word in enumerate(words):
        if word == flag and at + 1 < len(words):
            value = words[at + 1]
        elif word.startswith(f"{flag}="):
            value = word.removeprefix(f"{flag}=")
    return int(value) if value.isdigit() else None
