"""The CPU build's stand-in for the rejection sampler's expand kernel."""

from __future__ import annotations

from backends.patch import Edit, Patch

CPU_EXPAND = Patch(
    id="vllm-cpu-expand",
    engine="vllm",
    title="CPU: hand temperature, top_k and top_p to the verifier",
    why=(
        "The stand-in lets a C++ routine for int64 write into an int64 copy of its float output "
        "and never copies back. The sampler settings of every drafted position are then whatever "
        "memory held before, so almost nothing is accepted above temperature 0 and the samples "
        "follow a wrong distribution. Greedy decoding does not read them."
    ),
    symptom="acceptance length about 1.0 at temperature > 0, right at temperature 0, no error",
    upstream="https://github.com/vllm-project/vllm/issues/55005",
    edits=(
        Edit(
            "vllm/utils/cpu_triton_utils.py",
            "    torch.ops._C.expand_kernel_impl(\n"
            "        _ensure_int64(output),\n"
            "        _ensure_int64(input_val),\n"
            "        _ensure_int64(cu_num_tokens),\n"
            "        replace_from,\n"
            "        replace_to,\n"
            "    )\n",
            "    # Writes into the given tensor, in its own dtype: most callers pass floats.\n"
            "    start = 0\n"
            "    for value, end in zip(input_val.tolist(), cu_num_tokens.tolist()):\n"
            "        output[start:end] = replace_to if value == replace_from else value\n"
            "        start = end\n",
        ),
    ),
    devices=("cpu",),
    speculation=("dflash",),
)

PATCHES = (CPU_EXPAND,)
