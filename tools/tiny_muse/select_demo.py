"""Choose the demo prompts.

    python -m tools.tiny_muse.select_demo --corpus BUILD --weights OUT --out demo.jsonl

The demo compares engines that round differently, so its prompts are those whose greedy text depends
least on rounding: of many held-out candidates, the 16 conversations and the 16 code beginnings with
the widest smallest gap between the two best logits over the text, at most one token in ten (code:
one in four) in a repeated 8-gram. No conversation's question occurs in the training text, and all
code comes from held-out files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer

from .corpus import code_prompts
from .decode import generate
from .dialogues import long_request
from .framing import render
from .measure import load
from .model import Target
from .tokenizer import texts
from .training import repeats

SEED, EACH = 7, 16
_TOKENS = (40, 250)
_REPEATED = {"chat": 0.1, "code": 0.25}


def scores(target: Target, prompts: list[list[int]], tokens: int) -> list[tuple[float, float]]:
    """Per prompt: the smallest gap of the two best logits, and the share of repeated 8-grams."""
    longest = max(map(len, prompts))
    padded = torch.zeros(len(prompts), longest, dtype=torch.long)
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = torch.tensor(prompt)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    total = longest + tokens
    ids = generate(target, padded, lengths, total, torch.zeros(len(prompts)))
    found: list[tuple[float, float]] = []
    for row, length in zip(ids, lengths.tolist(), strict=True):
        text = row[None, : length + tokens]
        with torch.no_grad():
            best = target(text)[0, length - 1 : -1].topk(2, dim=-1).values
        again = repeats(text, torch.tensor([length])).sum().item() / tokens
        found.append(((best[:, 0] - best[:, 1]).min().item(), again))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--exclude", type=Path, nargs="*", default=[], help="other prompt files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--candidates", type=int, default=160)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()

    rng = Random(SEED)
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    target, _ = load(options.weights, "cpu", torch.float32)
    rows = [json.loads(line) for path in options.exclude for line in path.read_text().splitlines()]
    used = {row.get("text") or row["messages"][0]["content"] for row in rows}
    trained = "\n".join(texts(options.corpus / "chat.jsonl"))

    code = code_prompts(
        texts(options.corpus / "code-held-out.jsonl"), rng, options.candidates, (230, 430)
    )
    questions = dict.fromkeys(long_request(rng).question for _ in range(options.candidates))
    candidates: dict[str, list[dict[str, Any]]] = {
        "chat": [
            {"messages": [{"role": "user", "content": question}]}
            for question in questions
            if question not in used and question not in trained
        ],
        "code": [{"text": text} for text in code if text not in used],
    }
    chosen: dict[str, list[dict[str, Any]]] = {}
    for kind, entries in candidates.items():
        prompts = [
            tokenizer.encode(entry["text"]).ids
            if kind == "code"
            else tokenizer.encode(
                render(entry["messages"], generation_prompt=True), add_special_tokens=False
            ).ids
            for entry in entries
        ]
        fits = [i for i, prompt in enumerate(prompts) if _TOKENS[0] <= len(prompt) <= _TOKENS[1]]
        found = scores(target, [prompts[i] for i in fits], options.tokens)
        ranked = sorted(
            (gap, again, i)
            for (gap, again), i in zip(found, fits, strict=True)
            if again <= _REPEATED[kind]
        )[-EACH:]
        for gap, again, i in ranked:
            print(f"{kind} gap {gap:.3f} repeated {again:.2f} prompt {len(prompts[i])} tokens")
        chosen[kind] = [
            {"id": f"demo-{kind}-{n:02}", **entries[i]} for n, (_, _, i) in enumerate(ranked[::-1])
        ]
    mixed = [row for pair in zip(chosen["chat"], chosen["code"], strict=True) for row in pair]
    options.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in mixed))


if __name__ == "__main__":
    main()
