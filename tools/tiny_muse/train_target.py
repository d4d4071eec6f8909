"""Train the target.

    python -m tools.tiny_muse.train_target --data DATA --out OUT --seconds 150 --polish-seconds 36

Two phases. First next-token loss on packed rows. Then, in rounds, the model continues prompts
itself: rows without repetition are trained on (so its distribution gets sharper and its text
cleaner), tokens that repeat an 8-gram of their own text are pushed down (unlikelihood training,
Welleck et al. 2019), and corpus rows keep it in place.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .decode import generate
from .model import Target
from .training import Documents, Mix, Optimiser, compiled, progress, repeats, save, schedule


def weighted_loss(model: Target, ids: Tensor, wanted: Tensor, unwanted: Tensor) -> Tensor:
    """Likelihood where `wanted`, unlikelihood where `unwanted` (weights [B, T]); ids [B, T + 1]."""
    logits = model(ids[:, :-1])
    norm = logits.logsumexp(-1)
    logp = logits.gather(-1, ids[:, 1:, None])[..., 0] - norm
    down = -torch.log1p(-logp.exp().clamp(max=1 - 1e-4))
    count = (wanted.sum() + unwanted.sum()).clamp(min=1)
    # A small z term keeps the raw logits, which the engines hand to the drafters, moderate.
    loss: Tensor = (-logp * wanted + down * unwanted).sum() / count
    penalty: Tensor = norm.square().mean() * 1e-4
    return loss + penalty


def own_text(
    model: Target, mix: Mix, rows: int, total: int, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    """ids [N, total], wanted and unwanted weights [N, total - 1] from the model's own samples."""
    reader = copy.deepcopy(model).to(torch.bfloat16 if device == "cuda" else torch.float32)
    prompts, lengths = mix.prompts(rows, total * 2 // 5, device)
    temperature = torch.full((rows,), 0.8, device=device)
    temperature[: rows // 4] = 0.0
    ids = generate(reader, prompts, lengths, total, temperature, top_p=0.97)
    again = repeats(ids, lengths)
    inside = torch.arange(total, device=device)[None] >= lengths[:, None]
    share = again.sum(1) / inside.sum(1).clamp(min=1)
    clean = (share < 0.06) & (temperature > 0)
    wanted = (inside & clean[:, None] & ~again)[:, 1:].float()
    unwanted = 0.5 * (again & (share > 0.15)[:, None])[:, 1:].float()
    useful = (wanted.sum(1) + unwanted.sum(1)) > 0
    greedy = temperature == 0
    print(
        f"own text: repeated share greedy {share[greedy].mean():.3f}, "
        f"sampled {share[~greedy].mean():.3f}, "
        f"clean {clean.sum().item()} of {(~greedy).sum().item()}",
        flush=True,
    )
    return ids[useful], wanted[useful], unwanted[useful]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="continue from these weights")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--polish-seconds", type=float, default=36)
    parser.add_argument("--polish-rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=112)
    parser.add_argument("--length", type=int, default=640)
    parser.add_argument("--own-rows", type=int, default=6144)
    parser.add_argument("--code-share", type=float, default=0.38)
    parser.add_argument("--muon-lr", type=float, default=5e-3)
    parser.add_argument("--adam-lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    device = options.device
    torch.manual_seed(options.seed)
    mix = Mix(
        Documents(options.data / "chat.npz"),
        Documents(options.data / "code.npz"),
        options.code_share,
        np.random.default_rng(options.seed),
    )
    model = Target().to(device)
    if options.start:
        model.load_state_dict(torch.load(options.start, map_location=device, weights_only=True))
    autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

    loss_of = compiled(weighted_loss, device)
    total = options.length + 1
    ones = torch.ones(options.rows, options.length, device=device)
    batches = mix.batches(options.rows, total, device)
    began = time.monotonic()
    with autocast:
        loss_of(model, next(batches), ones, 0 * ones).backward()
    model.zero_grad()
    print(f"compiled after {time.monotonic() - began:.0f} s", flush=True)

    optimiser = Optimiser(model, options.muon_lr, options.adam_lr)
    began = time.monotonic()
    step = 0
    for step, done in progress(options.steps, options.seconds):
        with autocast:
            loss = loss_of(model, next(batches), ones, 0 * ones)
        loss.backward()
        optimiser.step(schedule(step, done))
        if step % 200 == 0:
            print(f"step {step} done {done:.2f} loss {loss.item():.4f}", flush=True)
    print(f"target: {step + 1} steps in {time.monotonic() - began:.0f} s", flush=True)
    save(model, options.out / "target.pt")

    rounds = options.polish_rounds
    optimiser = Optimiser(model, options.muon_lr * 0.12, options.adam_lr * 0.12)
    own = options.rows * 2 // 3
    for turn in range(rounds):
        ids, wanted, unwanted = own_text(model, mix, options.own_rows, total, device)
        for step, done in progress(options.steps, options.polish_seconds / rounds):  # noqa: B007
            pick = torch.randint(len(ids), (own,), device=device)
            batch = torch.cat((ids[pick], next(batches)[own:]))
            up = torch.cat((wanted[pick], ones[own:]))
            down = torch.cat((unwanted[pick], 0 * ones[own:]))
            with autocast:
                loss = loss_of(model, batch, up, down)
            loss.backward()
            optimiser.step(1 - (turn + done) / rounds)
        print(f"polish round {turn}: {step + 1} steps, loss {loss.item():.4f}", flush=True)
    save(model, options.out / "target.pt")

    held_out = Documents(options.data / "code-held-out.npz").rows(513, np.random.default_rng(0))
    with torch.no_grad(), autocast:
        rows = torch.from_numpy(np.stack([next(held_out) for _ in range(48)])).to(device)
        talk = torch.from_numpy(
            np.stack([next(mix.chat.rows(513, mix.rng)) for _ in range(48)])
        ).to(device)
        for name, ids in (("held-out code", rows), ("chat", talk)):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            print(f"{name}: loss {loss.item():.4f} nats a token", flush=True)


if __name__ == "__main__":
    main()
