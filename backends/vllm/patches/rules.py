"""Faults of vLLM that launch settings or a config overlay solve."""

from __future__ import annotations

from backends.patch import Rule

RULES = (
    Rule(
        id="vllm-batched-tokens",
        engine="vllm",
        title="Batched tokens must leave room for the drafts of every slot",
        symptom="max_num_scheduled_tokens is set to -6144",
        solution=(
            "`--max-num-batched-tokens` is chosen for the slots: vLLM takes K or K + 1 tokens a "
            "sequence off it. A plan that leaves none is refused."
        ),
    ),
    Rule(
        id="vllm-v1-image-token",
        engine="vllm",
        title="The V1 runner looks for image_token_index",
        symptom="'MuseGlimmerConfig' object has no attribute 'image_token_index'",
        solution="an overlay of the target that repeats `image_token_id` under that name.",
    ),
    Rule(
        id="vllm-v1-target-layers",
        engine="vllm",
        title="The V1 runner looks for target_layer_ids in dflash_config",
        symptom="DFlash drafter expects 1024 concatenated aux hidden features but received 768",
        solution="an overlay of the drafter that repeats the top-level key there.",
    ),
    Rule(
        id="vllm-v1-cache-groups",
        engine="vllm",
        title="The V1 runner wants the drafter's layers in one cache group",
        symptom="All drafting layers should belong to the same kv cache group",
        solution="`--disable-hybrid-kv-cache-manager`.",
    ),
)
