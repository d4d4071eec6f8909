"""Train the DFlash drafter, then the DSpark drafter from its backbone.

    python -m tools.tiny_muse.train_drafters --data DATA --out OUT

The text is the target's own: continuations of corpus prompts at temperature 0, 0.6 and 1.0. Each
row gets a number of random anchors; a block sees the target's states before its anchor only. The
loss at draft position i is half cross-entropy with the text and half KL divergence from the
target's distribution there, weighted exp(-i / decay).
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
from .training import Documents, Mix, Optimiser, progress, save, schedule


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
) -> tuple[Tensor, Tensor]:
    """Loss, and whether each draft [B, A, drafts] would be right given a right prefix.

    target_logp [B, T, V] is the target's log-distribution of the token *after* each position.
    """
    logits = drafter.base_logits(features, ids, anchors, frozen)
    after = anchors[:, :, None] + torch.arange(drafter.drafts, device=ids.device)
    rows = torch.arange(len(ids), device=ids.device)[:, None, None]
    if drafter.markov_w1 is not None:
        logits = logits + drafter.bias(ids[rows, after])
    truth, wanted = ids[rows, after + 1], target_logp[rows, after]
    logp = logits.log_softmax(-1)
    hard = -logp.gather(-1, truth[..., None])[..., 0]
    soft = (wanted.exp() * (wanted - logp)).sum(-1)
    loss = ((0.5 * hard + 0.5 * soft) * weights).mean() / weights.mean()
    return loss, logits.argmax(-1) == truth


def train(
    drafter: Drafter,
    target: Target,
    texts: Tensor,
    sizes: Tensor,
    options: argparse.Namespace,
    seconds: float,
    decay: float,
    lr_scale: float,
) -> None:
    device = options.device
    frozen = Frozen(target.embed_tokens.detach(), target.lm_head.detach())
    autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
    total = texts.shape[1]
    weights = torch.exp(-torch.arange(drafter.drafts, device=device) / decay)

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

    optimiser = Optimiser(drafter, options.muon_lr * lr_scale, options.adam_lr * lr_scale)
    began = time.monotonic()
    right = torch.zeros(drafter.drafts, device=device)
    step = 0
    for step, done in progress(options.steps, seconds):
        ids, anchors = batch()
        with autocast:
            features, logp = read(ids)
            loss, hits = draft_loss(drafter, features, ids, anchors, logp, weights, frozen)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step(schedule(step, done))
        right = 0.98 * right + 0.02 * hits.int().cumprod(-1).float().mean((0, 1))
        if step % 200 == 0:
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
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder with target.pt")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--dflash-seconds", type=float, default=60)
    parser.add_argument("--dspark-seconds", type=float, default=50)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--anchors", type=int, default=24)
    parser.add_argument("--own-rows", type=int, default=4096)
    parser.add_argument("--own-turns", type=int, default=6)
    parser.add_argument("--total", type=int, default=448)
    parser.add_argument("--code-share", type=float, default=0.45)
    parser.add_argument("--muon-lr", type=float, default=5e-3)
    parser.add_argument("--adam-lr", type=float, default=3e-3)
    parser.add_argument("--dflash-decay", type=float, default=7.0)
    parser.add_argument("--dspark-decay", type=float, default=10.0)
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

    dflash = Drafter().to(device)
    train(dflash, target, texts, sizes, options, options.dflash_seconds, options.dflash_decay, 1.0)
    save(dflash, options.out / "dflash.pt")

    dspark = Drafter(markov=True).to(device)
    dspark.load_state_dict(dflash.state_dict(), strict=False)
    train(dspark, target, texts, sizes, options, options.dspark_seconds, options.dspark_decay, 0.7)
    save(dspark, options.out / "dspark.pt")


if __name__ == "__main__":
    main()
