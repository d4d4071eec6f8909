"""How SGLang's plain sampler cuts the distribution, where it differs from the other engines."""

from __future__ import annotations

from backends.patch import Edit, Patch

_SAMPLER = "sglang/srt/layers/sampler.py"

TOP_P = Patch(
    id="sglang-top-p-after-top-k",
    engine="sglang",
    title="Sampling: apply top_p to what top_k left, as vLLM and llama.cpp do",
    why=(
        "The torch sampler measures top_p on the whole vocabulary. vLLM, llama.cpp and SGLang's "
        "own drafted verification measure it on what top_k left, so with both set the engines, "
        "and SGLang with and without a drafter, draw from different distributions."
    ),
    symptom="museorch audit: drawn tokens that the sampling rule excludes, on flat distributions",
    upstream="none known",
    edits=(
        Edit(
            _SAMPLER,
            "        >= top_ks.view(-1, 1)\n"
            "    ] = 0.0\n"
            "    probs_sort[(probs_sum - probs_sort) > top_ps.view(-1, 1)] = 0.0\n"
            "\n"
            "    if need_min_p_sampling:\n"
            "        # TODO",
            "        >= top_ks.view(-1, 1)\n"
            "    ] = 0.0\n"
            "    probs_sort /= probs_sort.sum(dim=-1, keepdim=True)\n"
            "    probs_sum = torch.cumsum(probs_sort, dim=-1)\n"
            "    probs_sort[(probs_sum - probs_sort) > top_ps.view(-1, 1)] = 0.0\n"
            "\n"
            "    if need_min_p_sampling:\n"
            "        # TODO",
        ),
    ),
    speculation=("none", "dflash", "dspark"),
)

PATCHES = (TOP_P,)
