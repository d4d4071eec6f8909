"""The CPU build's RMS norm ignores that each drafter layer has its own K-norm weights."""

from __future__ import annotations

from backends.patch import Edit, Patch

CPU_CONTEXT_NORM = Patch(
    id="vllm-cpu-context-norm",
    engine="vllm",
    title="CPU: norm the context keys of each drafter layer with its own weights",
    why=(
        "The drafter norms the keys of all its layers in one call, with a weight row per layer. "
        "The CUDA kernel picks the row by layer; the CPU kernel takes the first row for all "
        "(upstream met and mended the same on XPU). Every layer but the first then attends to "
        "wrongly scaled keys. Drafts get worse, output stays right. On the bundled model DFlash "
        "lost 5 to 10 % of its tokens per pass."
    ),
    symptom="acceptance length lower than on other engines, on the same prompts, no error",
    upstream="https://github.com/vllm-project/vllm/pull/56431",
    edits=(
        Edit(
            "vllm/model_executor/models/qwen3_dflash.py",
            "        ops.rms_norm(\n"
            "            all_k_normed,\n"
            "            all_k,\n"
            "            self._k_norm_weights,\n"
            "            self._rms_norm_eps,\n"
            "        )\n"
            "        return all_k_normed\n",
            "        for normed, keys, weight in zip(all_k_normed, all_k, self._k_norm_weights):\n"
            "            ops.rms_norm(normed, keys, weight, self._rms_norm_eps)\n"
            "        return all_k_normed\n",
        ),
    ),
    devices=("cpu",),
    speculation=("dflash",),
)

PATCHES = (CPU_CONTEXT_NORM,)
