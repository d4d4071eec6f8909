"""What both training scripts share: packed rows, prompts cut from documents, optimiser, pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .framing import EOT, TOKEN_ID


class Documents:
    """The encoded documents of one part of the corpus (see tokenizer.py)."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as data:
            self.ids: np.ndarray = data["ids"].astype(np.int64)
            self.starts: np.ndarray = data["starts"]
        self.ends = np.append(self.starts[1:], len(self.ids))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.starts[index] : self.ends[index]]

    def rows(self, length: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Endless rows of whole documents in random order; only a row's last document is cut."""
        row: list[np.ndarray] = []
        size = 0
        while True:
            for index in rng.permutation(len(self)):
                row.append(self[index])
                size += len(row[-1])
                if size >= length:
                    yield np.concatenate(row)[:length]
                    row, size = [], 0

    def prompt(self, rng: np.random.Generator, longest: int) -> np.ndarray:
        """A document's beginning: up to the first reply of a conversation, else a random cut."""
        document = self[int(rng.integers(len(self)))]
        start = TOKEN_ID["<|start|>"]
        turns = np.flatnonzero((document[:-2] == EOT) & (document[1:-1] == start)) + 1
        if len(turns) >= 2:
            # turns[0] begins the user's message and turns[1] the reply; "assistant" is one token.
            return document[: turns[1] + 2][:longest]
        return document[: int(rng.integers(24, longest))]


@dataclass(frozen=True)
class Mix:
    """Two parts of the corpus, and the share of code rows."""

    chat: Documents
    code: Documents
    code_share: float
    rng: np.random.Generator

    def batches(self, rows: int, length: int, device: str) -> Iterator[Tensor]:
        chat, code = self.chat.rows(length, self.rng), self.code.rows(length, self.rng)
        while True:
            picked = [
                next(code) if self.rng.random() < self.code_share else next(chat)
                for _ in range(rows)
            ]
            yield torch.from_numpy(np.stack(picked)).to(device, non_blocking=True)

    def prompts(self, rows: int, longest: int, device: str) -> tuple[Tensor, Tensor]:
        """Prompts [rows, longest], padded with 0, and their lengths [rows]."""
        padded, lengths = np.zeros((rows, longest), dtype=np.int64), np.zeros(rows, dtype=np.int64)
        for i in range(rows):
            part = self.code if self.rng.random() < self.code_share else self.chat
            prompt = part.prompt(self.rng, longest)
            padded[i, : len(prompt)], lengths[i] = prompt, len(prompt)
        return torch.from_numpy(padded).to(device), torch.from_numpy(lengths).to(device)


class Optimiser:
    """Muon for matrices, AdamW for embeddings, heads and norms; one schedule for both."""

    def __init__(self, module: nn.Module, muon_lr: float, adam_lr: float) -> None:
        trained = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        tables = ("embed_tokens", "lm_head", "markov_w1", "markov_w2")
        matrices = [p for n, p in trained if p.ndim == 2 and n not in tables]
        others = [p for n, p in trained if p.ndim != 2 or n in tables]
        self.parts: list[tuple[torch.optim.Optimizer, float]] = [
            (
                torch.optim.Muon(
                    matrices, lr=muon_lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
                ),
                muon_lr,
            ),
            (torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0), adam_lr),
        ]
        self.parameters = [p for _, p in trained]

    def step(self, scale: float) -> None:
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimiser, lr in self.parts:
            for group in optimiser.param_groups:
                group["lr"] = lr * scale
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)


def progress(steps: int, seconds: float) -> Iterator[tuple[int, float]]:
    """Steps with the share done (0 to 1), by count or by time, whichever is ahead."""
    began = time.monotonic()
    for step in range(steps):
        done = max(step / steps, (time.monotonic() - began) / seconds)
        if done >= 1:
            return
        yield step, done


def schedule(step: int, done: float, warmup: int = 60) -> float:
    """Linear warm-up, flat, then linear to zero over the last half."""
    return min(1.0, (step + 1) / warmup) * min(1.0, 2 * (1 - done))


def compiled(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    return torch.compile(function) if device == "cuda" else function


def repeats(ids: Tensor, lengths: Tensor, n: int = 8) -> Tensor:
    """[B, T] bool: the n-gram ending here occurred earlier in the generated part of the row."""
    total = ids.shape[1]
    key = torch.zeros_like(ids)
    for i in range(n):
        key[:, n - 1 :] = key[:, n - 1 :] * 1_000_003 + ids[:, i : total - n + 1 + i]
    position = torch.arange(total, device=ids.device)
    valid = position[None] >= lengths[:, None] + n - 1
    # Outside the generated part every key is made unique, so that it matches nothing.
    key = torch.where(valid, key, -1 - position[None])
    ordered, order = key.sort(dim=1, stable=True)
    again = torch.zeros_like(valid)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(valid).scatter(1, order, again) & valid


def save(module: nn.Module, path: Path) -> None:
    """Weights rounded to bf16, written so that a reader never sees half a file."""
    state = {name: tensor.detach().cpu().bfloat16() for name, tensor in module.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    torch.save(state, partial)
    partial.rename(path)
