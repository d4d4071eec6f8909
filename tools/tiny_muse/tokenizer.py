"""Train the tokenizer and encode the corpus.

    python -m tools.tiny_muse.tokenizer --corpus BUILD --out BUILD

A byte-level BPE of 1,024 entries with GPT-2's pre-tokenizer, so that llama.cpp can read it as
`gpt-2`. Writes `tokenizer.json` and, per part, `NAME.npz` with `ids` (uint16, every document with
BOS in front and EOS behind) and `starts` (int64, first index of each document).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from .framing import BOS, EOS, SPECIAL_TOKENS, VOCAB_SIZE


def texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def train(samples: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(samples, trainer)
    bos = SPECIAL_TOKENS[BOS]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, BOS)]
    )
    return tokenizer


def encode(tokenizer: Tokenizer, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
    rows: list[np.ndarray] = []
    for encoding in tokenizer.encode_batch(documents, add_special_tokens=False):
        ids = encoding.ids if encoding.ids[:1] == [BOS] else [BOS, *encoding.ids]
        rows.append(np.array([*ids, EOS], dtype=np.uint16))
    starts = np.cumsum([0, *(len(row) for row in rows)])[:-1]
    return np.concatenate(rows), starts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    parts = {name: texts(options.corpus / f"{name}.jsonl") for name in ("chat", "code")}
    held_out = texts(options.corpus / "code-held-out.jsonl")
    budget = 5_000_000
    samples: list[str] = []
    for documents in parts.values():
        used = 0
        for document in documents:
            if used >= budget:
                break
            samples.append(document)
            used += len(document)
    tokenizer = train(samples)
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"))
    for name, documents in {**parts, "code-held-out": held_out}.items():
        ids, starts = encode(tokenizer, documents)
        np.savez(options.out / f"{name}.npz", ids=ids, starts=starts)
        characters = sum(map(len, documents))
        print(
            f"{name}: {len(starts)} documents, {len(ids)} tokens, "
            f"{characters / len(ids):.2f} characters a token"
        )


if __name__ == "__main__":
    main()
