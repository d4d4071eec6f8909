"""Reference decoding: batched sampling with a cache, and what a drafter would have had accepted."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .model import Drafter, Frozen, Target, features_of


def sample(logits: Tensor, temperature: Tensor, *, top_p: float, top_k: int) -> Tensor:
    """Token ids [B] from logits [B, V]; rows with temperature 0 take the largest logit.

    Order as in the engines: temperature, then top_k, then top_p.
    """
    greedy = logits.argmax(-1)
    scaled = logits / temperature.clamp(min=1e-4)[:, None]
    if 0 < top_k < scaled.shape[-1]:
        scaled = scaled.masked_fill(scaled < scaled.topk(top_k).values[:, -1:], -torch.inf)
    if top_p < 1.0:
        ordered, order = scaled.sort(descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        keep = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before < top_p)
        scaled = scaled.masked_fill(~keep, -torch.inf)
    noise = -torch.log(-torch.log(torch.rand_like(scaled).clamp(1e-9, 1 - 1e-7)))
    return torch.where(temperature > 0, (scaled + noise).argmax(-1), greedy)


@torch.no_grad()
def generate(
    model: Target,
    prompts: Tensor,
    lengths: Tensor,
    total: int,
    temperature: Tensor,
    *,
    top_p: float = 1.0,
    top_k: int = 0,
) -> Tensor:
    """Continue prompts [B, P] (padded on the right, lengths [B]) to ids [B, total].

    Nothing stops a row: text after the end of a turn is the model's own next document.
    """
    rows = prompts.shape[0]
    ids = prompts.new_zeros(rows, total)
    ids[:, : prompts.shape[1]] = prompts
    cache = model.new_cache(rows, total)
    for t in range(total - 1):
        picked = sample(model.step(ids[:, t], t, cache), temperature, top_p=top_p, top_k=top_k)
        ids[:, t + 1] = torch.where(t + 1 < lengths, ids[:, t + 1], picked)
    return ids


@dataclass
class Acceptance:
    """Counts over speculative steps, as the engines count them."""

    steps: int = 0
    accepted_at: list[int] = field(default_factory=list)
    per_request: list[float] = field(default_factory=list)

    @property
    def tau(self) -> float:
        """Acceptance length: tokens a step, the bonus token included."""
        return 1 + sum(self.accepted_at) / self.steps

    def marginal(self) -> list[float]:
        return [count / self.steps for count in self.accepted_at]


@torch.no_grad()
def accepted_lengths(target: Target, drafter: Drafter, frozen: Frozen, ids: Tensor) -> Tensor:
    """For every position of ids [B, T], how many drafts after it the text confirms, [B, T].

    The text is the target's own, so walking through it in steps of one plus this number is
    speculative decoding with greedy drafts, at any temperature of the target.
    """
    rows, length = ids.shape
    features = features_of(target.hidden_states(ids))
    padded = torch.cat((ids, ids.new_full((rows, drafter.drafts), -1)), dim=1)
    results: list[Tensor] = []
    for first in range(0, length, 16):
        at = torch.arange(first, min(first + 16, length), device=ids.device)
        anchors = at.expand(rows, -1)
        drafts = drafter.draft(features, ids, anchors, frozen)
        truth = padded[:, at[:, None] + torch.arange(1, drafter.drafts + 1, device=ids.device)]
        results.append((drafts == truth).int().cumprod(-1).sum(-1))
    return torch.cat(results, dim=1)


def walk(lengths: list[int], start: int, stop: int, drafts: int, into: Acceptance) -> None:
    """Add one request: text from index start to stop; the first token comes from the prefill."""
    into.accepted_at = into.accepted_at or [0] * drafts
    at, steps, accepted = start, 0, 0
    while at < stop - 1:
        # Drafts beyond the last token wanted are never counted by an engine that stops there.
        got = min(lengths[at], stop - 1 - at)
        for i in range(got):
            into.accepted_at[i] += 1
        at, steps, accepted = at + got + 1, steps + 1, accepted + got
    into.steps += steps
    if steps:
        into.per_request.append(1 + accepted / steps)
