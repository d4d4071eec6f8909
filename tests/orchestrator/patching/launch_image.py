"""Small files with the faults that vLLM's launch image had, in the places where it had them."""

from __future__ import annotations

from pathlib import Path

from backends.vllm.patches.wrapper import SPEC_DECODE

VERSION = "0.1.dev19075"

FILES = {
    "vllm/__init__.py": "",
    "vllm/model_executor/models/muse_glimmer.py": "class MuseGlimmerModel:\n    pass\n",
    # 1. Only the bare name is registered.
    "vllm/model_executor/models/registry.py": (
        "_SPECULATIVE_DECODING_MODELS = {\n"
        '    "DFlashDraftModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM"),\n'
        '    "MuseGlimmerAssistantModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM"),\n'
        "}\n"
    ),
    # 2. The drafter's config is a Qwen3 one.
    "vllm/config/speculative.py": (
        "class SpeculativeConfig:\n"
        "    @staticmethod\n"
        "    def hf_config_override(hf_config):\n"
        "        initial_architecture = hf_config.architectures[0]\n"
        "        return hf_config, initial_architecture\n"
    ),
    # 3. No names for the encoder's tensors. 5. The vocabulary of the drafter's config.
    "vllm/model_executor/models/qwen3_dflash.py": (
        "class DFlashQwen3Model:\n"
        "    hf_to_vllm_mapper = dict(\n"
        '        orig_to_new_substr={"midlayer.": "layers.0."},\n'
        "    )\n"
        "\n"
        "\n"
        "class DFlashQwen3ForCausalLM:\n"
        "    def __init__(self, vllm_config, config):\n"
        "        self.config = config\n"
        '        if getattr(self.config, "draft_vocab_size", None) is None:\n'
        '            self.config.draft_vocab_size = getattr(self.config, "vocab_size", None)\n'
    ),
    # 4. The decoder has no .model.
    f"{SPEC_DECODE}/dflash/utils.py": (
        "def load_dflash_model(target_language_model):\n"
        "    target_inner = target_language_model.model\n"
        "    return target_inner\n"
    ),
}
# 6 is arithmetic on launch settings: slots are taken off --max-num-batched-tokens.

EDITED = {
    "vllm-registry-alias",
    "vllm-drafter-defaults",
    "vllm-encoder-names",
    "vllm-draft-vocab",
    "vllm-dflash-wrapper",
}


def packages(root: Path) -> Path:
    """A site-packages folder with that engine."""
    folder = root / "site-packages"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / f"vllm-{VERSION}.dist-info").mkdir()
    return folder
