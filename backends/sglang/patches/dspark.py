"""DSpark on Muse Glimmer: which layers its drafter reads, and the scale of its base logits."""

from __future__ import annotations

from backends.patch import Edit, Evidence, Patch

_AUX = "sglang/srt/model_executor/model_runner_components/spec_aux_hidden_state.py"
_DRAFT = "sglang/srt/models/dspark.py"

LAYERS = Patch(
    id="sglang-dspark-layers",
    engine="sglang",
    title="DSpark: read the target layers that the drafter was trained on",
    why=(
        "A drafter's target_layer_ids name layer outputs; Muse Glimmer in SGLang captures before a "
        "layer, so each id has to grow by one. SGLang does that for its DFlash drafters, and then "
        "overwrites the result with the unchanged ids for DSpark."
    ),
    symptom="DSpark accepts less than in other engines, worst at position 0, without any error",
    upstream="none known",
    edits=(
        Edit(
            _AUX,
            "                target_layer_ids = list(dspark_draft_config.target_layer_ids)\n",
            "                target_layer_ids = list(dspark_draft_config.target_layer_ids)\n"
            "                draft_config = draft_model_config.hf_config\n"
            "                if getattr(\n"
            '                    model_config.hf_config, "model_type", None\n'
            '                ) == "muse_glimmer" and "Qwen3DSparkModel" in (\n'
            '                    getattr(draft_config, "architectures", None) or []\n'
            "                ):\n"
            "                    # The ids name layer outputs, and the target captures inputs.\n"
            "                    target_layer_ids = [i + 1 for i in target_layer_ids]\n",
        ),
    ),
    speculation=("dspark",),
    precondition=(Evidence(_AUX, "MuseGlimmerAssistantModel"),),
)

LOGITS = Patch(
    id="sglang-dspark-logits",
    engine="sglang",
    title="DSpark: honour a drafter's output_multiplier and final_logit_softcapping",
    why=(
        "The Markov bias is added to the base logits, so both must have the scale of training. A "
        "drafter may say in dflash_config that it was trained on scaled or softcapped logits; "
        "SGLang reads both keys and uses them for DFlash2 only. Without the keys nothing changes: "
        "the published DSpark drafter has none, and is served on raw logits by vLLM too."
    ),
    symptom="a DSpark drafter with these keys accepts less than in llama.cpp, without any error",
    upstream="none known",
    edits=(
        Edit(
            _DRAFT,
            "        local_logits = project_through_lm_head(hidden, self.lm_head)\n",
            "        local_logits = project_through_lm_head(hidden, self.lm_head)\n"
            "        if self.draft_config.output_multiplier != 1.0:\n"
            "            local_logits = local_logits * self.draft_config.output_multiplier\n"
            "        softcap = self.draft_config.final_logit_softcapping\n"
            "        if softcap is not None:\n"
            "            local_logits = torch.tanh(local_logits / softcap) * softcap\n",
        ),
    ),
    speculation=(),
    only_for="DSpark drafters with these keys",
    since="0.5.20",
    precondition=(Evidence("sglang/srt/speculative/dflash_utils.py", "output_multiplier"),),
)

PATCHES = (LAYERS, LOGITS)
