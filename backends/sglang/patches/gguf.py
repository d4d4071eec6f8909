"""GGUF targets."""

from __future__ import annotations

from backends.patch import Edit, Evidence, Patch

_WEIGHTS = "sglang/srt/model_loader/weight_utils.py"
MUSE = Evidence("sglang/srt/model_loader/gguf_name_maps.py", "build_muse_glimmer_name_map")

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
    precondition=(MUSE,),
)

SCALE = Patch(
    id="sglang-gguf-scale",
    engine="sglang",
    title="GGUF: scale queries by the file's own head size",
    why=(
        "A file that does not say how queries are scaled gets 3.87 times the root of 128, the head "
        "size of the published target, whatever its own is."
    ),
    symptom="a GGUF target with another head size, such as tiny-muse, gives other text than its "
    "checkpoint, without any error",
    upstream="none known",
    edits=(
        Edit(
            "sglang/srt/configs/muse_glimmer.py",
            '_mul_sqrt(opt("attention.scale"), head_dim)',
            '_mul_sqrt(opt("attention.scale") or 3.87, head_dim)',
        ),
    ),
    speculation=(),
    only_for="GGUF targets",
    precondition=(MUSE,),
)

PATCHES = (BF16, SCALE)
