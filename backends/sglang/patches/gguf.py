"""GGUF targets."""

from __future__ import annotations

from backends.patch import Edit, Evidence, Patch

_WEIGHTS = "sglang/srt/model_loader/weight_utils.py"

BF16 = Patch(
    id="sglang-gguf-bf16",
    engine="sglang",
    title="GGUF: read BF16 tensors as numbers",
    why=(
        "numpy has no bfloat16, so the GGUF reader gives the bytes of a BF16 tensor; SGLang takes "
        "them for the numbers, twice as many as there should be."
    ),
    symptom="a BF16 GGUF target ends at its first token: Expected hidden_size to be 256, but "
    "found: 512",
    upstream="none known",
    edits=(
        Edit(
            _WEIGHTS,
            '                name = name.replace("weight", "qweight")\n'
            "            param = torch.tensor(weight)\n"
            "            yield name, param\n",
            '                name = name.replace("weight", "qweight")\n'
            "            param = torch.tensor(weight)\n"
            '            if weight_type.name == "BF16":\n'
            "                param = param.view(torch.bfloat16)\n"
            "            yield name, param\n",
        ),
    ),
    speculation=(),
    only_for="BF16 GGUF targets",
    precondition=(
        Evidence("sglang/srt/model_loader/gguf_name_maps.py", "build_muse_glimmer_name_map"),
    ),
)

PATCHES = (BF16,)
