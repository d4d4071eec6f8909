"""Train the DFlash drafter or the DSpark drafter, from nothing or from a DFlash checkpoint.

    python -m tools.tiny_muse.train_drafters --drafter dflash --loss text --data DATA --out OUT
    python -m tools.tiny_muse.train_drafters --drafter dspark --start OUT/dflash.pt --data DATA \
        --out OUT

The text is the target's own: continuations of corpus prompts at temperature 0, 0.6 and 1.0. Each
row gets a number of random anchors; a block sees the target's states before its anchor only. The
loss at draft position i is half cross-entropy and half KL divergence from the target's
distribution there. `text`: cross-entropy with the text, weights exp(-i / decay). `reach`:
cross-entropy with the target's most likely token; a position's weight is about the chance that the
drafts before it are accepted, so the loss works where a step really gets to.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .decode import generate
from .model import Drafter, Frozen, Target, features_of
from .training import Documents, Mix, Optimiser, compiled, progress, save, schedule


def own_text(
    model: Target, mix: Mix, rows: int, total: int, turns: int, device: str
) -> tuple[Tensor, Tensor]:
    """Samples [N, total] at temperatures 0, 0.6, 1.0 (2 : 1 : 2), and the prompts' lengths [N]."""
    texts: list[Tensor] = []
    sizes: list[Tensor] = []
    temperature = torch.tensor([0.0, 0.0, 0.6, 1.0, 1.0], device=device).repeat(rows // 5 + 1)[
        :rows
    ]
    for _ in range(turns):
        prompts, lengths = mix.prompts(rows, total * 2 // 5, device)
        texts.append(
            generate(model, prompts, lengths, total, temperature, top_p=0.95, top_k=64).short()
        )
        sizes.append(lengths)
    return torch.cat(texts), torch.cat(sizes)


def draft_loss(
    drafter: Drafter,
    features: Tensor,
    ids: Tensor,
    anchors: Tensor,
    target_logp: Tensor,
    weights: Tensor,
    frozen: Frozen,
    by_reach: bool,
) -> tuple[Tensor, Tensor]:
    """Loss, and whether each draft [B, A, drafts] would be right given a right prefix.

    target_logp [B, T, V] is the target's log-distribution of the token *after* each position;
    weights [drafts] are used as they are, or as a floor under the reach.
    """
    logits = drafter.base_logits(features, ids, anchors, frozen)
    after = anchors[:, :, None] + torch.arange(drafter.drafts, device=ids.device)
    rows = torch.arange(len(ids), device=ids.device)[:, None, None]
    if drafter.markov_w1 is not None:
        logits = logits + drafter.bias(ids[rows, after])
    truth, wanted = ids[rows, after + 1], target_logp[rows, after]
    logp = logits.log_softmax(-1)
    hits = logits.argmax(-1) == truth
    soft = (wanted.exp() * (wanted - logp)).sum(-1)
    label = truth
    if by_reach:
        label = wanted.argmax(-1)
        weights = weights + reach(logp.detach().gather(-1, truth[..., None])[..., 0])
        weights = weights / weights.sum(-1, keepdim=True)
    hard = -logp.gather(-1, label[..., None])[..., 0]
    loss = ((0.5 * hard + 0.5 * soft) * weights).mean() / weights.mean()
    return loss, hits


def reach(logp: Tensor) -> Tensor:
    """Root of the chance that all drafts before each one are right, from logp [..., drafts]."""
    before = torch.cat((torch.zeros_like(logp[..., :1]), logp[..., :-1]), dim=-1)
    return (0.5 * before.cumsum(-1)).exp()


def train(
    drafter: Drafter,
    target: Target,
    texts: Tensor,
    sizes: Tensor,
    options: argparse.Namespace,
    weights: Tensor,
) -> None:
    device = options.device
    frozen = Frozen(target.embed_tokens.detach(), target.lm_head.detach())
    autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
    total = texts.shape[1]
    loss_of = compiled(draft_loss, device)
    by_reach = options.loss == "reach"

    @torch.no_grad()
    def read(ids: Tensor) -> tuple[Tensor, Tensor]:
        states = target.hidden_states(ids)
        return features_of(states), target.logits(states[-1]).log_softmax(-1)

    def batch() -> tuple[Tensor, Tensor]:
        pick = torch.randint(len(texts), (options.rows,), device=device)
        first = sizes[pick, None].float() - 8
        room = total - drafter.drafts - 2 - first
        spread = torch.rand(options.rows, options.anchors, device=device)
        return texts[pick].long(), (first + spread * room).long().clamp(min=1)

    optimiser = Optimiser(drafter, options.muon_lr, options.adam_lr)
    began = time.monotonic()
    ids, anchors = batch()
    with autocast:
        features, logp = read(ids)
        loss_of(drafter, features, ids, anchors, logp, weights, frozen, by_reach)[0].backward()
    drafter.zero_grad()
    print(f"compiled after {time.monotonic() - began:.0f} s", flush=True)

    began = time.monotonic()
    right = torch.zeros(drafter.drafts, device=device)
    step = 0
    for step, done in progress(options.steps, options.seconds):
        ids, anchors = batch()
        with autocast:
            features, logp = read(ids)
            loss, hits = loss_of(drafter, features, ids, anchors, logp, weights, frozen, by_reach)
        loss.backward()
        optimiser.step(schedule(step, done))
        right = 0.98 * right + 0.02 * hits.int().cumprod(-1).float().mean((0, 1))
        if step % 500 == 0:
            tau = 1 + right.sum().item() / (1 - 0.98 ** (step + 1))
            print(
                f"step {step} done {done:.2f} loss {loss.item():.4f} tau at true prefix {tau:.2f}",
                flush=True,
            )
    print(
        f"{step + 1} steps in {time.monotonic() - began:.0f} s, loss {loss.item():.4f}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drafter", choices=("dflash", "dspark"), required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="has target.pt")
    parser.add_argument("--start", type=Path, help="a DFlash checkpoint to go on from")
    parser.add_argument("--loss", choices=("text", "reach"), default="reach")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--anchors", type=int, default=32)
    parser.add_argument("--own-rows", type=int, default=8192)
    parser.add_argument("--own-turns", type=int, default=4)
    parser.add_argument("--total", type=int, default=352)
    parser.add_argument("--code-share", type=float, default=0.8)
    parser.add_argument("--muon-lr", type=float, default=7e-3)
    parser.add_argument("--adam-lr", type=float, default=4e-3)
    parser.add_argument("--decay", type=float, default=10.0)
    parser.add_argument("--floor", type=float, default=0.05, help="reach: least weight")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    device = options.device
    torch.manual_seed(options.seed)
    precision = torch.bfloat16 if device == "cuda" else torch.float32
    target = Target()
    target.load_state_dict(torch.load(options.out / "target.pt", weights_only=True))
    target = target.to(device, precision).requires_grad_(False)
    mix = Mix(
        Documents(options.data / "chat.npz"),
        Documents(options.data / "code.npz"),
        options.code_share,
        np.random.default_rng(options.seed),
    )
    began = time.monotonic()
    texts, sizes = own_text(target, mix, options.own_rows, options.total, options.own_turns, device)
    print(f"own text: {tuple(texts.shape)} in {time.monotonic() - began:.0f} s", flush=True)

    drafter = Drafter(markov=options.drafter == "dspark").to(device)
    if options.start is not None:
        # DSpark's Markov head is not in a DFlash checkpoint and starts as no bias.
        drafter.load_state_dict(torch.load(options.start, weights_only=True), strict=False)
    weights = torch.exp(-torch.arange(drafter.drafts, device=device) / options.decay)
    if options.loss == "reach":
        weights = options.floor * weights
    train(drafter, target, texts, sizes, options, weights)
    save(drafter, options.out / f"{options.drafter}.pt")


if __name__ == "__main__":
    main()
