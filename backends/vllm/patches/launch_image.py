"""What DFlash needs on builds from before Muse Glimmer's drafter was finished in vLLM.

The image published on the model's first day serves the target and trips over its drafter in six
places. Four are here, the missing `.model` is in `wrapper.py`, and the sixth is arithmetic on
launch settings. Releases have had all of them since 0.28.0.
"""

from __future__ import annotations

from backends.patch import Edit, Evidence, Patch
from backends.vllm.patches.wrapper import NATIVE

REPORT = "https://github.com/vllm-project/recipes/issues/782"
RETIRED = "0.28.0"

_REGISTRY = "vllm/model_executor/models/registry.py"
_SPECULATIVE = "vllm/config/speculative.py"
_DFLASH = "vllm/model_executor/models/qwen3_dflash.py"
_OWN_CONFIG = (
    Evidence("vllm/transformers_utils/configs/muse_glimmer.py", "use_sliding_window"),
    # From 0.33.0 on the class of transformers is used, which keeps both values.
    Evidence(_SPECULATIVE, 'hf_config.model_type == "muse_glimmer_assistant"'),
)

REGISTRY = Patch(
    id="vllm-registry-alias",
    engine="vllm",
    title="Register the drafter under the name that DFlash looks for",
    why=(
        "The DFlash config puts `DFlash` before the architecture's name, and only the bare name is "
        "registered."
    ),
    symptom="Model architectures ['DFlashMuseGlimmerAssistantModel'] are not supported for now",
    upstream=REPORT,
    edits=(
        Edit(
            _REGISTRY,
            '    "MuseGlimmerAssistantModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM"),\n',
            '    "MuseGlimmerAssistantModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM"),\n'
            '    "DFlashMuseGlimmerAssistantModel": (\n'
            '        "qwen3_dflash",\n'
            '        "DFlashQwen3ForCausalLM",\n'
            "    ),\n",
        ),
    ),
    speculation=("dflash",),
    until=RETIRED,
    precondition=(NATIVE,),
    fixed_by=(Evidence(_REGISTRY, '"DFlashMuseGlimmerAssistantModel"'),),
)

DEFAULTS = Patch(
    id="vllm-drafter-defaults",
    engine="vllm",
    title="Give the drafter its vocabulary and its sliding window",
    why=(
        "The drafter is read as a Qwen3 config. That has 151936 tokens where the checkpoint names "
        "no number, so no token above can be drafted, the end token among them; and it drops the "
        "sliding window unless use_sliding_window is set. The drafter was trained with 202048 "
        "tokens and a window of 2048."
    ),
    symptom="sliding attention requires a window size; or tokens from 151936 on are never drafted",
    upstream=REPORT,
    edits=(
        Edit(
            _SPECULATIVE,
            "        initial_architecture = hf_config.architectures[0]\n",
            "        initial_architecture = hf_config.architectures[0]\n"
            '        if initial_architecture == "MuseGlimmerAssistantModel":\n'
            "            # Values that the Qwen3 config class has lost or replaced.\n"
            "            if hf_config.vocab_size == 151936:\n"
            "                hf_config.vocab_size = 202048\n"
            '            if getattr(hf_config, "sliding_window", None) is None:\n'
            "                hf_config.sliding_window = 2048\n",
        ),
    ),
    speculation=("dflash",),
    until=RETIRED,
    precondition=(NATIVE,),
    fixed_by=_OWN_CONFIG,
)

ENCODER = Patch(
    id="vllm-encoder-names",
    engine="vllm",
    title="Map the drafter's encoder tensors",
    why="The checkpoint calls `encoder.fc` and `encoder.output_norm_enc` what vLLM calls `fc` and "
    "`hidden_norm`.",
    symptom="There is no module or parameter named 'encoder' in DFlashQwen3Model",
    upstream=REPORT,
    edits=(
        Edit(
            _DFLASH,
            '        orig_to_new_substr={"midlayer.": "layers.0."},\n',
            "        orig_to_new_substr={\n"
            '            "midlayer.": "layers.0.",\n'
            '            "encoder.output_norm_enc.": "hidden_norm.",\n'
            '            "encoder.fc.": "fc.",\n'
            "        },\n",
        ),
    ),
    speculation=("dflash",),
    until=RETIRED,
    precondition=(NATIVE,),
    fixed_by=(
        Evidence(_DFLASH, "encoder.output_norm_enc"),
        Evidence(_DFLASH, r"encoder\.output_norm_enc"),
    ),
)

VOCABULARY = Patch(
    id="vllm-draft-vocab",
    engine="vllm",
    title="Take the draft vocabulary from the target",
    why="It was read from the drafter's config, which does not name it; the two share the head.",
    symptom="a draft head of 151936 rows beside a target of 202048; acceptance collapses",
    upstream=REPORT,
    edits=(
        Edit(
            _DFLASH,
            'self.config.draft_vocab_size = getattr(self.config, "vocab_size", None)\n',
            "self.config.draft_vocab_size = vllm_config.model_config.get_vocab_size()\n",
        ),
    ),
    speculation=("dflash",),
    until=RETIRED,
    precondition=(NATIVE,),
    fixed_by=_OWN_CONFIG,
)

PATCHES = (REGISTRY, DEFAULTS, ENCODER, VOCABULARY)
