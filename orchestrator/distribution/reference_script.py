"""Logits of a checkpoint by transformers. Runs in an engine's environment, which has torch.

    ENGINE_PYTHON -I reference_script.py < ASKED.json

ASKED: {"model": FOLDER, "out": FILE.npz, "threads": N, "prompts": [PROMPT, ..]},
PROMPT: {"ids": [..], "prefixes": [[..], ..]}.
FILE.npz: `float32` [contexts, V] in the order asked; `bf16` [fewer contexts, V] and `bf16_rows`.
"""

import json
import sys
from importlib import import_module
from typing import Any

ROWS = 64
"""Sequences of one batch, and of a prompt's share of the bf16 pass."""


def main() -> None:
    numpy, torch, transformers = map(import_module, ("numpy", "torch", "transformers"))
    asked = json.load(sys.stdin)
    torch.set_num_threads(asked["threads"])
    config = transformers.AutoConfig.from_pretrained(asked["model"])
    family = getattr(transformers, config.architectures[0])
    found: dict[str, Any] = {}
    with torch.inference_mode():
        for name, dtype, limit in (
            ("float32", torch.float32, None),
            ("bf16", torch.bfloat16, ROWS),
        ):
            model = family.from_pretrained(asked["model"], dtype=dtype).eval()
            logits: list[Any] = []
            rows: list[int] = []
            offset = 0
            for prompt in asked["prompts"]:
                for place, row in _prompt(torch, model, prompt, limit):
                    rows.append(offset + place)
                    logits.append(row)
                offset += len(prompt["prefixes"])
            order = sorted(range(len(rows)), key=rows.__getitem__)
            found[name] = numpy.stack([logits[at] for at in order])
            found[f"{name}_rows"] = numpy.array([rows[at] for at in order])
    numpy.savez(asked["out"], **found)


def _prompt(torch: Any, model: Any, prompt: Any, limit: int | None) -> list[tuple[int, Any]]:
    """(number of the prefix, its logits). Prefixes of one another share a sequence."""
    ids, prefixes = prompt["ids"], [tuple(prefix) for prefix in prompt["prefixes"]]
    number = {prefix: place for place, prefix in enumerate(prefixes)}
    inner = {prefix[:cut] for prefix in prefixes for cut in range(len(prefix))}
    longest = [prefix for prefix in prefixes if prefix not in inner][:limit]
    found: dict[int, Any] = {}
    for first in range(0, len(longest), ROWS):
        batch = longest[first : first + ROWS]
        width = max(map(len, batch))
        # Padding comes after everything that is read, so causal attention never sees it.
        padded = [[*ids, *prefix, *[ids[0]] * (width - len(prefix))] for prefix in batch]
        logits = model(input_ids=torch.tensor(padded), logits_to_keep=width + 1).logits.float()
        for prefix, row in zip(batch, logits, strict=True):
            for cut in range(len(prefix) + 1):
                place = number.get(prefix[:cut])
                if place is not None and place not in found:
                    found[place] = row[cut].numpy()
    return list(found.items())


if __name__ == "__main__":
    main()
