"""SGLang: argv, requests and stream events. Flags of SGLang 0.5.18 to 0.5.23."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backends.base import (
    PORT,
    PUBLISHED_VOCABULARY,
    Call,
    Chunk,
    CounterMap,
    Finding,
    LaunchPlan,
    LiveMap,
    Overlay,
    Request,
    RequestSpeculation,
    Sampling,
    ServeSpec,
    conditions,
    error_text,
)
from backends.patch import Patch
from backends.preflight import PACKAGES, above_block, too_old
from backends.sglang import gguf
from backends.sglang.patches import FIRST_NATIVE, PATCHES, for_weights, needed
from backends.sglang.reported import reported

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
ALGORITHMS = {"dflash": "DFLASH", "dspark": "DSPARK"}

ACCEPTED_KEYS = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
DRAFTED_KEYS = ("spec_num_proposed_drafts", "spec_draft_token_num")
HISTOGRAM_KEYS = ("spec_correct_drafts_histogram", "spec_accept_histogram")

MEASURING = (
    *("--disable-radix-cache", "--enable-metrics", "--skip-server-warmup"),
    *("--sampling-backend", "pytorch", "--random-seed", "0"),
)
SERVING = (
    *("--enable-metrics", "--skip-server-warmup"),
    *("--reasoning-parser", "muse", "--tool-call-parser", "muse"),
)

MASKED = -1e9
"""Added to a logit that must not win: JSON has no infinity."""

DRAFTER_OVERLAY = "{drafter-overlay}"

CPU_ENV = {
    # PyPI has no CPU kernels for SGLang; the plain torch paths and Triton's interpreter serve.
    "SGLANG_USE_CPU_ENGINE": "0",
    "SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND": "python",
    "TRITON_INTERPRET": "1",
    "HF_HUB_OFFLINE": "1",
}
CPU_ARGS = (
    *("--device", "cpu", "--attention-backend", "torch_native"),
    *("--disable-overlap-schedule", "--disable-hybrid-swa-memory", "--grammar-backend", "none"),
    *("--mem-fraction-static", "0.5"),
)


@dataclass(frozen=True)
class Sglang:
    name: str = "sglang"
    formats: tuple[str, ...] = ("hf", "gguf")
    drafter_formats: tuple[str, ...] = ("hf",)
    patches: Mapping[str, Patch] = field(default_factory=lambda: PATCHES)
    counters: CounterMap = CounterMap(
        steps="sglang:spec_verify_calls_total", drafted=None, accepted=None, per_position=None
    )
    live: LiveMap = LiveMap(
        "sglang:generation_tokens_total",
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        requests="sglang:num_requests_total",
        rate="sglang:gen_throughput",
    )

    def plan(self, spec: ServeSpec) -> LaunchPlan:
        argv = [
            *(spec.executable, "-m", "sglang.launch_server"),
            *("--model-path", spec.target.path),
            *("--served-model-name", spec.served_name),
            *("--host", spec.host, "--port", PORT),
            *("--dtype", DTYPES.get(spec.target.quantisation, "auto")),
            *("--context-length", str(spec.context_length)),
            *("--max-running-requests", str(spec.slots)),
            *(SERVING if spec.purpose == "serve" else MEASURING),
        ]
        env = dict(spec.extra_env)
        if spec.target.format == "gguf":
            argv += ["--load-format", "gguf", "--quantization", "gguf"]
            if spec.purpose == "measure":
                # It knows few tokenizers of GGUF files, and measuring wants none.
                argv += ["--skip-tokenizer-init"]
        else:
            argv += ["--language-model-only"]
            argv += ["--load-format", "dummy"] if spec.target.dummy else []
        if spec.device == "cpu":
            # A verify pass needs room for its whole block, also at the end of a full slot.
            room = spec.context_length + (spec.draft_tokens + 1 if spec.draft_tokens else 0)
            argv += [*CPU_ARGS, "--max-total-tokens", str(room * spec.slots)]
            if spec.purpose == "serve":
                argv += ["--sampling-backend", "pytorch"]
            env = {**CPU_ENV, **env}
            if spec.threads is not None:
                env = {"OMP_NUM_THREADS": str(spec.threads), **env}
        if spec.drafter is not None and spec.draft_tokens is not None:
            argv += self._speculation(spec, spec.draft_tokens)
        return LaunchPlan(
            backend=self.name,
            argv=(*argv, *spec.extra_args),
            env=env,
            health_path="/health",
            start_timeout_s=600.0 if spec.device == "cpu" else 900.0,
            fact_paths=("/server_info", "/v1/models"),
            patches=(
                *needed(spec.engine_version, spec.device, spec.speculation),
                *for_weights(spec.target, spec.speculation),
            ),
            modules=_modules(spec),
            overlays=self._overlays(spec),
            findings=tuple(self._findings(spec)),
            draft_tokens=spec.draft_tokens if spec.drafter else None,
            conditions=conditions(spec),
        )

    def _speculation(self, spec: ServeSpec, k: int) -> list[str]:
        assert spec.drafter is not None
        path = spec.drafter.weights.path
        overlaid = {overlay.source: overlay.placeholder for overlay in self._overlays(spec)}
        argv = [
            *("--speculative-algorithm", ALGORITHMS[spec.drafter.family]),
            *("--speculative-draft-model-path", overlaid.get(path, path)),
            # SGLang counts the anchor: its number is drafts + 1.
            *("--speculative-num-draft-tokens", str(k + 1)),
        ]
        if spec.drafter.family == "dflash":
            argv += ["--speculative-dflash-block-size", str(k + 1)]
        else:
            argv += ["--speculative-dspark-block-size", str(k)]
        target_is_gguf = spec.target.format == "gguf"
        if target_is_gguf:
            # The drafter inherits the target's quantisation otherwise, and finds no weights.
            argv += ["--speculative-draft-model-quantization", "unquant"]
        if spec.drafter.weights.dummy:
            argv += ["--speculative-draft-load-format", "dummy"]
        elif target_is_gguf:
            argv += ["--speculative-draft-load-format", "auto"]
        if spec.device == "cpu":
            argv += ["--speculative-draft-attention-backend", "torch_native"]
        return argv

    def _overlays(self, spec: ServeSpec) -> tuple[Overlay, ...]:
        drafter = spec.drafter
        if drafter is None or drafter.weights.format != "hf":
            return ()
        changes: dict[str, int | bool] = {}
        why = ""
        if drafter.family == "dspark":
            # Seen on 0.5.23: a pass gives 10 % fewer tokens than the torch reference without it.
            changes = {"is_causal": False}
            why = "SGLang drafts with causal attention in sliding layers unless is_causal says no"
        elif drafter.vocab_size != PUBLISHED_VOCABULARY:
            changes = {"vocab_size": drafter.vocab_size}
            why = f"without vocab_size SGLang assumes {PUBLISHED_VOCABULARY}"
        if not changes:
            return ()
        return (Overlay(drafter.weights.path, why, DRAFTER_OVERLAY, changes=changes),)

    def _findings(self, spec: ServeSpec) -> list[Finding]:
        found = [
            *too_old("SGLang", spec.engine_version, FIRST_NATIVE),
            *above_block(spec),
            *gguf.findings(spec),
        ]
        if spec.device == "cpu":
            found.append(
                Finding(
                    "warning",
                    "slow-on-cpu",
                    "SGLang has no CPU kernels and runs on plain torch: right, but slow.",
                    "Use it to check tokens and acceptance, not speed.",
                )
            )
        if spec.kv_dtype != "bf16":
            found.append(
                Finding(
                    "error",
                    "kv-dtype",
                    f"SGLang keeps its KV cache in the model's own type, not in {spec.kv_dtype}.",
                    "Set serve.kv_dtype to bf16.",
                )
            )
        found.append(
            Finding(
                "info",
                "no-request-seed",
                "SGLang draws from one random stream of the server: a request's seed has no "
                "effect, so sampled text cannot be repeated.",
            )
        )
        return found

    def call(self, request: Request, model: str) -> Call:
        del model
        sampling = request.sampling
        params: dict[str, Any] = {
            "max_new_tokens": request.max_tokens,
            "min_new_tokens": 0,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k if sampling.top_k > 0 else -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop_token_ids": list(request.end_token_ids),
            "ignore_eos": False,
            "skip_special_tokens": False,
            "sampling_seed": request.seed,
        }
        if request.fixed_length:
            # Not min_new_tokens: with a drafter it lets end tokens through (seen on 0.5.23).
            params["logit_bias"] = {str(token): MASKED for token in request.end_token_ids}
        body = {"input_ids": list(request.prompt_ids), "sampling_params": params, "stream": True}
        if request.top_tokens:
            body |= {"return_logprob": True, "top_logprobs_num": request.top_tokens}
        return Call("/generate", body)

    def chunk(self, event: Mapping[str, Any]) -> Chunk:
        if "error" in event:
            return Chunk(error=error_text(event["error"]))
        meta = event.get("meta_info") or {}
        ids = event.get("output_ids", [])
        if not isinstance(ids, list):
            raise ValueError(f"output_ids is a {type(ids).__name__}, not a list")
        reason = meta.get("finish_reason")
        finish = reason.get("type") if isinstance(reason, dict) else reason
        if finish == "abort":
            told = reason.get("message") if isinstance(reason, dict) else None
            return Chunk(error=f"aborted by the server: {told or 'no reason given'}")
        return Chunk(
            token_ids=tuple(ids),
            finish=finish,
            prompt_tokens=meta.get("prompt_tokens"),
            completion_tokens=meta.get("completion_tokens"),
            speculation=_request_speculation(meta) if finish else None,
            top=_top(meta),
        )

    def slot_context(self, facts: Mapping[str, Any]) -> int | None:
        return (facts.get("/server_info") or {}).get("context_length")

    def reported(
        self, facts: Mapping[str, Any], log: str, env: Mapping[str, str]
    ) -> Mapping[str, str]:
        del env
        return reported(facts, log)

    def verification(self, spec: ServeSpec, sampling: Sampling) -> str:
        if spec.drafter is None:
            return "none"
        if sampling.greedy:
            return "exact-argmax"
        if spec.drafter.family == "dflash":
            return "target-only sampling, greedy draft"
        return "rejection-sampling, sampled draft"


def _top(meta: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    rows = meta.get("output_top_logprobs") or [()]
    return tuple((token, logprob) for logprob, token, *_ in rows[0] or ())


def _modules(spec: ServeSpec) -> tuple[str, ...]:
    drafter = spec.drafter
    found = [*PACKAGES, "sglang/srt/models/muse_glimmer.py"]
    if drafter is not None:
        found.append(f"sglang/srt/models/{drafter.family}.py")
    if "gguf" in (spec.target.format, drafter.weights.format if drafter else ""):
        found.append("gguf")
    if spec.device == "cuda":
        found += ["sgl_kernel", "flashinfer"]
    return tuple(found)


def _request_speculation(meta: Mapping[str, Any]) -> RequestSpeculation | None:
    """Reads `meta_info` under the key names SGLang has used over its versions."""

    def first(keys: tuple[str, ...]) -> Any:
        return next((meta[key] for key in keys if meta.get(key) is not None), None)

    steps = meta.get("spec_verify_ct")
    if steps is None:
        return None
    histogram = first(HISTOGRAM_KEYS)
    return RequestSpeculation(
        steps=steps,
        drafted=first(DRAFTED_KEYS),
        accepted=first(ACCEPTED_KEYS),
        histogram=tuple(histogram) if histogram else None,
    )


SGLANG = Sglang()
