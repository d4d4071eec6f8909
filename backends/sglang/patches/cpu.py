"""What lets SGLang draft on a CPU without `sgl_kernel`. Slow, and right: for truth, not for speed.

PyPI has no CPU kernels for SGLang, so it runs on plain torch and on Triton's interpreter. These
places ask for CUDA, or for those kernels, where plain torch does the same.
"""

from __future__ import annotations

from backends.patch import Edit, Patch

SINCE = "0.5.23"

SOFTCAP = Patch(
    id="sglang-cpu-softcap",
    engine="sglang",
    title="CPU: softcap the logits in torch",
    why="The fused softcap calls CUDA's libdevice, which Triton's interpreter does not have.",
    symptom="triton.runtime.errors.InterpreterError at the start, in softcap_inplace_logits",
    upstream="none known",
    edits=(
        Edit(
            "sglang/srt/layers/logits_processor.py",
            "            if not (_is_npu or _is_cpu):\n"
            "                fused_softcap(logits, self.final_logit_softcapping)\n",
            '            if not (_is_npu or _is_cpu or logits.device.type == "cpu"):\n'
            "                fused_softcap(logits, self.final_logit_softcapping)\n",
        ),
    ),
    devices=("cpu",),
    speculation=("none", "dflash", "dspark"),
    since=SINCE,
)

GATES = Patch(
    id="sglang-cpu-gates",
    engine="sglang",
    title="CPU: allow DFlash and DSpark",
    why="Both algorithms and their attention backend are refused on a CPU, though they run there.",
    symptom="ValueError: DFLASH speculative decoding is not supported by SRTPlatform on device "
    "'cpu' / DSpark speculative decoding only supports CUDA, NPU or XPU device",
    upstream="none known",
    edits=(
        Edit(
            "sglang/srt/arg_groups/choices.py",
            'DRAFT_ATTENTION_BACKEND_CHOICES = [\n    "flashinfer",\n',
            'DRAFT_ATTENTION_BACKEND_CHOICES = [\n    "torch_native",\n    "flashinfer",\n',
        ),
        Edit(
            "sglang/srt/arg_groups/speculative_hook.py",
            'cfg.device.startswith("cuda") or cfg.device == "npu" or cfg.device == "xpu"\n',
            'cfg.device.startswith("cuda") or cfg.device in ("npu", "xpu", "cpu")\n',
        ),
        Edit(
            "sglang/srt/arg_groups/speculative_hook.py",
            '    if not cfg.device.startswith(("cuda", "npu", "xpu")):\n',
            '    if not cfg.device.startswith(("cuda", "npu", "xpu", "cpu")):\n',
        ),
    ),
    devices=("cpu",),
    since=SINCE,
)

CACHE = Patch(
    id="sglang-cpu-cache-locs",
    engine="sglang",
    title="CPU: look up the cache slots of drafted tokens in torch",
    why="The look-up knows CUDA, NPU and sgl_kernel's CPU path, and returns None elsewhere.",
    symptom="AttributeError: 'NoneType' object has no attribute 'view', at the first draft",
    upstream="none known",
    edits=(
        Edit(
            "sglang/kernels/ops/speculative/cache_locs.py",
            "        return out_cache_loc\n\n\ndef fill_front_out_cache_loc_func(\n",
            "        return out_cache_loc\n"
            "\n"
            "    spans = zip(\n"
            "        req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist()\n"
            "    )\n"
            "    return torch.cat(\n"
            "        [req_to_token[row, start:end] for row, start, end in spans]\n"
            "    ).to(torch.int64)\n"
            "\n\ndef fill_front_out_cache_loc_func(\n",
        ),
    ),
    devices=("cpu",),
    since=SINCE,
)

ATTENTION = Patch(
    id="sglang-cpu-verify-attention",
    engine="sglang",
    title="CPU: attend over drafted tokens in the torch_native backend",
    why=(
        "In a verify pass the batch has no extend lengths: each request brings the same number of "
        "new tokens, on top of its committed length."
    ),
    symptom="AttributeError: 'NoneType' object has no attribute 'shape' in torch_native_backend",
    upstream="none known",
    edits=(
        Edit(
            "sglang/srt/layers/attention/torch_native_backend.py",
            "            causal = False\n\n        self._run_sdpa_forward_extend(\n",
            "            causal = False\n"
            "\n"
            "        seq_lens = forward_batch.seq_lens\n"
            "        extend_prefix_lens = forward_batch.extend_prefix_lens\n"
            "        extend_seq_lens = forward_batch.extend_seq_lens\n"
            "        if forward_batch.forward_mode.is_target_verify():\n"
            "            extend_prefix_lens = seq_lens\n"
            "            extend_seq_lens = torch.full_like(\n"
            "                seq_lens, q_.shape[0] // seq_lens.shape[0]\n"
            "            )\n"
            "            seq_lens = seq_lens + extend_seq_lens\n"
            "\n"
            "        self._run_sdpa_forward_extend(\n",
        ),
        Edit(
            "sglang/srt/layers/attention/torch_native_backend.py",
            "            forward_batch.seq_lens,\n"
            "            forward_batch.extend_prefix_lens,\n"
            "            forward_batch.extend_seq_lens,\n",
            "            seq_lens,\n"
            "            extend_prefix_lens,\n"
            "            extend_seq_lens,\n",
        ),
    ),
    devices=("cpu",),
    since=SINCE,
)


def _record_stream(file: str) -> Edit:
    return Edit(
        file,
        "        batch.seq_lens.record_stream(\n"
        "            torch.get_device_module(self.device).current_stream()\n"
        "        )\n",
        '        if batch.seq_lens.device.type != "cpu":\n'
        "            batch.seq_lens.record_stream(\n"
        "                torch.get_device_module(self.device).current_stream()\n"
        "            )\n",
    )


STREAMS = Patch(
    id="sglang-cpu-streams",
    engine="sglang",
    title="CPU: no device streams in the drafting workers",
    why="A CPU tensor has no stream to record.",
    symptom="RuntimeError: unknown parameter type, from record_stream at the first draft",
    upstream="none known",
    edits=(
        _record_stream("sglang/srt/speculative/dflash_worker_v2.py"),
        _record_stream("sglang/srt/speculative/dspark_components/dspark_worker_v2.py"),
    ),
    devices=("cpu",),
    since=SINCE,
)

SAMPLING = Patch(
    id="sglang-cpu-dflash-sampling",
    engine="sglang",
    title="CPU: verify sampled DFlash drafts with SGLang's Triton kernel",
    why=(
        "The kernel for sampled verification is CUDA's. Without one DFlash verifies by argmax, so "
        "every temperature gives greedy text. The chain kernel of DSpark does the same once each "
        "drafted token is given the proposal probability 1."
    ),
    symptom="DFLASH non-greedy verification is unavailable on this build/device; falling back to "
    "greedy argmax verification.",
    upstream="none known",
    edits=(
        Edit(
            "sglang/kernels/ops/speculative/verify_sampling.py",
            "            tree_speculative_sampling_target_only = None\n"
            "    else:\n"
            "        tree_speculative_sampling_target_only = None\n",
            "            tree_speculative_sampling_target_only = None\n"
            "    else:\n"
            "\n"
            "        def tree_speculative_sampling_target_only(\n"
            "            *, candidates, draft_probs, **others\n"
            "        ):\n"
            "            # A chain drafted greedily: row i proposes the token i + 1 for certain.\n"
            "            draft_probs.scatter_(2, candidates[:, 1:, None], 1.0)\n"
            "            chain_speculative_sampling_triton(\n"
            "                candidates=candidates, draft_probs=draft_probs, **others\n"
            "            )\n",
        ),
    ),
    devices=("cpu",),
    speculation=("dflash",),
    since=SINCE,
)

KERNELS = Patch(
    id="sglang-cpu-draft-kernels",
    engine="sglang",
    title="CPU: norm and rotate drafted queries and keys in torch",
    why=(
        "For bf16 the drafters use fused Triton kernels, which the interpreter runs element by "
        "element; beside them stands the torch code for other types, which does the same."
    ),
    symptom="a drafting step takes 0.4 s on a model that decodes 160 tokens a second",
    upstream="none known",
    edits=(
        Edit(
            "sglang/srt/models/dflash.py",
            "        elif self.use_table_qk_norm_rope and qkv.dtype == torch.bfloat16:\n",
            "        elif (\n"
            "            self.use_table_qk_norm_rope\n"
            "            and qkv.dtype == torch.bfloat16\n"
            '            and qkv.device.type != "cpu"\n'
            "        ):\n",
        ),
        Edit(
            "sglang/srt/models/dspark.py",
            "            if w.dtype != torch.bfloat16:\n                return None\n",
            '            if w.dtype != torch.bfloat16 or w.device.type == "cpu":\n'
            "                return None\n",
        ),
    ),
    devices=("cpu",),
    since=SINCE,
)

PATCHES = (SOFTCAP, GATES, CACHE, ATTENTION, STREAMS, KERNELS, SAMPLING)
