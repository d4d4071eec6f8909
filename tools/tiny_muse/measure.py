"""Measure acceptance with the reference decoder.

    python -m tools.tiny_muse.measure --weights OUT --tokenizer BUILD/tokenizer.json \
        --prompts recipes/tiny-muse/prompts/demo.jsonl --out acceptance.json

Modes: greedy, and temperature 1.0 / top_p 0.95 / top_k 64 with greedy drafts, as llama.cpp drafts.
Each with EOS ignored (fixed length) and with the natural stop at EOS or EOT.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from .decode import Acceptance, accepted_lengths, generate, walk
from .framing import EOS, EOT, render
from .model import Drafter, Frozen, Target
from .training import repeats


def load_prompts(path: Path, tokenizer: Tokenizer) -> list[list[int]]:
    """Token ids, BOS first: the chat template for `messages`, plain text for `text`."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        tokenizer.encode(row["text"]).ids
        if "text" in row
        else tokenizer.encode(
            render(row["messages"], generation_prompt=True), add_special_tokens=False
        ).ids
        for row in rows
    ]


def load(weights: Path, device: str, precision: torch.dtype) -> tuple[Target, dict[str, Drafter]]:
    target = Target()
    target.load_state_dict(torch.load(weights / "target.pt", weights_only=True, map_location="cpu"))
    drafters: dict[str, Drafter] = {}
    for name in ("dflash", "dspark"):
        drafter = Drafter(markov=name == "dspark")
        if not (weights / f"{name}.pt").exists():
            continue
        drafter.load_state_dict(
            torch.load(weights / f"{name}.pt", weights_only=True, map_location="cpu")
        )
        drafters[name] = drafter.to(device, precision).requires_grad_(False)
    return target.to(device, precision).requires_grad_(False), drafters


def natural_end(ids: list[int], start: int, stop: int) -> int:
    """Index after the first EOS or EOT, or `stop`."""
    return next((i + 1 for i in range(start, stop) if ids[i] in (EOS, EOT)), stop)


def measure(
    target: Target,
    drafters: dict[str, Drafter],
    prompts: list[list[int]],
    tokens: int,
    temperature: float,
    seeds: int,
) -> tuple[dict[str, Any], list[list[int]]]:
    device = target.embed_tokens.device
    prompts = prompts * seeds
    longest = max(map(len, prompts))
    total = longest + tokens
    padded = torch.zeros(len(prompts), longest, dtype=torch.long)
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = torch.tensor(prompt)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    heat = torch.full((len(prompts),), temperature, device=device)
    nucleus = {"top_p": 0.95, "top_k": 64} if temperature > 0 else {"top_p": 1.0, "top_k": 0}
    ids: Tensor = generate(
        target, padded.to(device), lengths, total, heat,
        top_p=float(nucleus["top_p"]), top_k=int(nucleus["top_k"]),
    )  # fmt: skip
    rows = ids.tolist()
    starts = lengths.tolist()
    ends = [
        natural_end(row, start, start + tokens) for row, start in zip(rows, starts, strict=True)
    ]
    # Only the first `tokens` generated ones count; rows are padded to one length.
    window = ids.clone()
    for i, start in enumerate(starts):
        window[i, start + tokens :] = -1 - torch.arange(total - start - tokens, device=device)
    again = repeats(window, lengths)
    result: dict[str, Any] = {
        "requests": len(prompts),
        "stopped": sum(end < start + tokens for end, start in zip(ends, starts, strict=True)),
        "repeated_8gram_share": again.sum().item() / (len(prompts) * tokens),
    }
    for name, drafter in drafters.items():
        frozen = Frozen(target.embed_tokens, target.lm_head)
        found = accepted_lengths(target, drafter, frozen, ids).tolist()
        fixed, natural = Acceptance(), Acceptance()
        for row, start, end in zip(found, starts, ends, strict=True):
            walk(row, start, start + tokens, drafter.drafts, fixed)
            walk(row, start, end, drafter.drafts, natural)
        result[name] = {
            rule: {
                "tau": round(acceptance.tau, 3),
                "tau_mean_of_requests": round(
                    sum(acceptance.per_request) / len(acceptance.per_request), 3
                ),
                "steps": acceptance.steps,
                "marginal": [round(value, 3) for value in acceptance.marginal()],
            }
            for rule, acceptance in (("ignore_eos", fixed), ("natural_stop", natural))
        }
    texts = [row[start:end] for row, start, end in zip(rows, starts, ends, strict=True)]
    return result, texts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--samples", type=int, default=4, help="samples a prompt at temperature 1")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--show", type=int, default=0, help="print this many greedy texts")
    options = parser.parse_args()

    torch.manual_seed(0)
    precision = torch.bfloat16 if options.device == "cuda" else torch.float32
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    prompts = load_prompts(options.prompts, tokenizer)
    target, drafters = load(options.weights, options.device, precision)
    report: dict[str, Any] = {"prompts": options.prompts.name, "tokens": options.tokens}
    kinds = [
        line.startswith('{"id": "demo-chat') for line in options.prompts.read_text().splitlines()
    ]
    groups = {"all": prompts}
    if any(kinds) and not all(kinds):
        groups["chat"] = [p for p, chat in zip(prompts, kinds, strict=True) if chat]
        groups["code"] = [p for p, chat in zip(prompts, kinds, strict=True) if not chat]
    for mode, temperature, samples in (("greedy", 0.0, 1), ("temperature", 1.0, options.samples)):
        for group, chosen in groups.items():
            result, texts = measure(target, drafters, chosen, options.tokens, temperature, samples)
            report[f"{mode}/{group}"] = result
            line = [
                f"{mode}/{group}",
                f"repeats {result['repeated_8gram_share']:.3f}",
                f"stopped {result['stopped']}/{result['requests']}",
            ]
            for name in drafters:
                part = result[name]["ignore_eos"]
                natural = result[name]["natural_stop"]["tau"]
                line.append(f"{name} tau {part['tau']} {part['marginal']} natural {natural}")
            print("\n   ".join(line), flush=True)
            if mode == "greedy" and group == "all":
                for text in texts[: options.show]:
                    print("-----\n" + tokenizer.decode(text, skip_special_tokens=False))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
