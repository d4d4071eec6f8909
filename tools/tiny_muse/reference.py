"""Greedy acceptance of the bundled drafters by reference implementations, in float32.

    ENGINE_PYTHON -m tools.tiny_muse.reference < requests.json > acceptance.json

The target and DFlash are transformers' own classes and its own assisted generation; DSpark, which
transformers lacks, is the torch drafter of this folder on transformers' hidden states. Reads
{"model": FOLDER, "prompts": [[id]], "tokens": N, "drafts": K}; writes, per drafter and prompt, the
number of verification passes and the output ids. Needs torch and transformers, as the engines'
environments have them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, MuseGlimmerForConditionalGeneration
from transformers.generation import DFlashTokenCandidateGenerator

from .decode import Acceptance, accepted_lengths, walk
from .model import Drafter, Frozen, Target

PUBLISHED = {
    "encoder.fc.weight": "fc.weight",
    "encoder.output_norm_enc.weight": "hidden_norm.weight",
    "markov_head.markov_w1.weight": "markov_w1",
    "markov_head.markov_w2.weight": "markov_w2",
}


class Published(Target):
    """The layer outputs as transformers computes them, for the torch drafter."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def hidden_states(self, ids: Tensor) -> list[Tensor]:
        return list(self.model(input_ids=ids, output_hidden_states=True).hidden_states[1:])


def dflash(model: Any, folder: Path, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
    """transformers' assisted generation; a pass is a call of the target with drafts to verify."""
    assistant = AutoModel.from_pretrained(folder / "dflash", dtype=torch.float32).eval()
    drafted: list[int] = []
    original = DFlashTokenCandidateGenerator.get_candidates

    def counted(self: Any, input_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = original(self, input_ids, *args, **kwargs)
        drafted.append(found[0].shape[1] - input_ids.shape[1])
        return found

    DFlashTokenCandidateGenerator.get_candidates = counted
    passes: list[int] = []
    outputs: list[list[int]] = []
    try:
        for prompt in prompts:
            drafted.clear()
            ids = model.generate(
                torch.tensor([prompt]),
                assistant_model=assistant,
                speculation_type="dflash",
                max_new_tokens=tokens,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=3,
            )
            # The first pass is the prefill, which has nothing to verify.
            passes.append(len(drafted) - 1)
            outputs.append(ids[0, len(prompt) :].tolist())
    finally:
        DFlashTokenCandidateGenerator.get_candidates = original
    return {"passes": passes, "ids": outputs}


def by_torch(
    model: Any, folder: Path, name: str, prompts: list[list[int]], texts: list[list[int]], k: int
) -> dict[str, Any]:
    """What the torch drafter would have had accepted of the target's greedy text."""
    drafter = Drafter(markov=name == "dspark")
    state = load_file(folder / name / "model.safetensors")
    drafter.load_state_dict({PUBLISHED.get(key, key): value for key, value in state.items()})
    drafter = drafter.float().eval()
    # The engines draft in blocks of the anchor and K masks, whatever the drafter was trained for.
    drafter.drafts = k
    frozen = Frozen(model.get_input_embeddings().weight, model.lm_head.weight)
    passes: list[int] = []
    for prompt, text in zip(prompts, texts, strict=True):
        found = accepted_lengths(
            Published(model), drafter, frozen, torch.tensor([prompt + text])
        ).tolist()[0]
        count = Acceptance()
        walk(found, len(prompt), len(prompt) + len(text), drafter.drafts, count)
        passes.append(count.steps)
    return {"passes": passes, "ids": texts}


@torch.no_grad()
def main() -> None:
    asked = json.load(sys.stdin)
    folder, prompts, tokens = Path(asked["model"]), asked["prompts"], asked["tokens"]
    torch.set_num_threads(1)
    model: Any = MuseGlimmerForConditionalGeneration.from_pretrained(
        folder / "target", dtype=torch.float32
    ).eval()
    texts: list[list[int]] = []
    for prompt in prompts:
        ids = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=3,
        )
        texts.append(ids[0, len(prompt) :].tolist())
    result = {
        "plain": {"ids": texts},
        "dflash": dflash(model, folder, prompts, tokens),
        "dflash, torch": by_torch(model, folder, "dflash", prompts, texts, asked["drafts"]),
        "dspark": by_torch(model, folder, "dspark", prompts, texts, asked["drafts"]),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
