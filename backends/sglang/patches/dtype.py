"""Drafters in another type than bfloat16."""

from __future__ import annotations

from backends.patch import Edit, Patch

EMBEDS = Patch(
    id="sglang-draft-dtype",
    engine="sglang",
    title="DFlash: hand the drafter its input in the model's type",
    why="The embeddings that a DFlash drafter starts from are cast to bfloat16 whatever its type.",
    symptom="a float16 or float32 target with DFlash ends at its first token: expected m1 and m2 "
    "to have the same dtype, but got: c10::BFloat16 != float",
    upstream="none known",
    edits=(
        Edit(
            "sglang/srt/model_executor/model_runner.py",
            'kwargs["input_embeds"] = forward_batch.input_embeds.bfloat16()\n',
            'kwargs["input_embeds"] = forward_batch.input_embeds.to(self.dtype)\n',
        ),
    ),
    speculation=(),
    only_for="float16 and float32 targets with DFlash",
)

PATCHES = (EMBEDS,)
