"""vLLM: argv, requests and stream events. Flags of vLLM 0.28 to 0.33."""

from __future__ import annotations

import json
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
from backends.patch import Patch, parse_version
from backends.preflight import PACKAGES, above_block, too_old
from backends.vllm.batch import batched_tokens, scheduled_tokens
from backends.vllm.patches import FIRST_NATIVE, PATCHES, needed
from backends.vllm.reported import reported

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
KV_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "auto"}
MEASURING = (
    *("--no-enable-prefix-caching", "--language-model-only"),
    *("--generation-config", "vllm", "--seed", "0"),
)
SERVING = (
    *("--enable-prefix-caching", "--language-model-only"),
    *("--reasoning-parser", "muse_glimmer"),
    *("--enable-auto-tool-choice", "--tool-call-parser", "muse_glimmer"),
)
PER_REQUEST_METRICS = parse_version("0.29")
"""First release that reports speculation per request; 0.28 does not know the flag."""
TARGET_OVERLAY = "{target-overlay}"
DRAFTER_OVERLAY = "{drafter-overlay}"


@dataclass(frozen=True)
class Vllm:
    name: str = "vllm"
    formats: tuple[str, ...] = ("hf",)
    drafter_formats: tuple[str, ...] = ("hf",)
    patches: Mapping[str, Patch] = field(default_factory=lambda: PATCHES)
    counters: CounterMap = CounterMap(
        steps="vllm:spec_decode_num_drafts_total",
        drafted="vllm:spec_decode_num_draft_tokens_total",
        accepted="vllm:spec_decode_num_accepted_tokens_total",
        per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    )
    live: LiveMap = LiveMap(
        "vllm:generation_tokens_total", "vllm:num_requests_running", "vllm:num_requests_waiting"
    )

    def plan(self, spec: ServeSpec) -> LaunchPlan:
        overlays = self._overlays(spec)
        paths = {overlay.source: overlay.placeholder for overlay in overlays}
        # `vllm serve` of the CPU wheel dies looking for its own metadata; the module works.
        argv = [
            *(spec.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", paths.get(spec.target.path, spec.target.path)),
            *("--served-model-name", spec.served_name),
            *("--host", spec.host, "--port", PORT),
            *("--dtype", DTYPES.get(spec.target.quantisation, "auto")),
            *("--max-model-len", str(spec.context_length)),
            *("--max-num-seqs", str(spec.slots)),
            *("--max-num-batched-tokens", str(batched_tokens(spec))),
            # The drafter is loaded the same way.
            *(("--load-format", "dummy") if spec.target.dummy else ()),
            *(SERVING if spec.purpose == "serve" else MEASURING),
        ]
        env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", **spec.extra_env}
        if spec.device == "cpu":
            argv += ["--enforce-eager"]
            env = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", **env}
            if spec.threads is not None:
                env = {"OMP_NUM_THREADS": str(spec.threads), **env}
        elif spec.kv_dtype != "bf16":
            argv += ["--kv-cache-dtype", KV_DTYPES[spec.kv_dtype]]
        if spec.drafter is not None:
            argv += ["--speculative-config", self._speculative_config(spec, paths)]
            if parse_version(spec.engine_version) >= PER_REQUEST_METRICS:
                argv += ["--per-request-spec-decode-metrics", "summary"]
            if spec.device == "cpu":
                # The V1 runner wants all drafting layers in one KV cache group.
                argv += ["--disable-hybrid-kv-cache-manager"]
        return LaunchPlan(
            backend=self.name,
            argv=(*argv, *spec.extra_args),
            env=env,
            health_path="/health",
            start_timeout_s=300.0 if spec.device == "cpu" else 900.0,
            fact_paths=("/version", "/v1/models"),
            patches=needed(spec.engine_version, spec.device, spec.speculation),
            modules=(*PACKAGES, "vllm/model_executor/models/muse_glimmer.py"),
            overlays=overlays,
            findings=tuple(self._findings(spec)),
            draft_tokens=spec.draft_tokens if spec.drafter else None,
            conditions=conditions(spec),
            key_env="VLLM_API_KEY",
        )

    def _speculative_config(self, spec: ServeSpec, paths: Mapping[str, str]) -> str:
        assert spec.drafter is not None
        path = spec.drafter.weights.path
        return json.dumps(
            {
                "method": spec.drafter.family,
                "model": paths.get(path, path),
                "num_speculative_tokens": spec.draft_tokens,
            }
        )

    def _overlays(self, spec: ServeSpec) -> tuple[Overlay, ...]:
        """Configs that vLLM, or its V1 runner (the one of CPU builds), would read wrongly."""
        drafter = spec.drafter
        if drafter is None:
            return ()
        found: list[Overlay] = []
        if spec.device == "cpu":
            found.append(
                Overlay(
                    spec.target.path,
                    "the V1 runner reads image_token_index; the checkpoint says image_token_id",
                    TARGET_OVERLAY,
                    aliases={"image_token_index": "image_token_id"},
                )
            )
        aliases: dict[str, str] = {}
        changes: dict[str, int] = {}
        why: list[str] = []
        if spec.device == "cpu":
            aliases = {
                "dflash_config.target_layer_ids": "target_layer_ids",
                "dflash_config.mask_token_id": "mask_token_id",
            }
            why.append(
                "the V1 runner reads dflash_config; the checkpoint has the keys at top level"
            )
        if drafter.family == "dflash" and drafter.vocab_size != PUBLISHED_VOCABULARY:
            changes = {"vocab_size": drafter.vocab_size}
            why.append(f"without vocab_size vLLM assumes {PUBLISHED_VOCABULARY}")
        if why:
            found.append(
                Overlay(drafter.weights.path, "; ".join(why), DRAFTER_OVERLAY, aliases, changes)
            )
        return tuple(found)

    def _findings(self, spec: ServeSpec) -> list[Finding]:
        found = [
            *too_old("vLLM", spec.engine_version, FIRST_NATIVE),
            *above_block(spec),
            *scheduled_tokens(spec),
        ]
        if spec.target.format != "hf":
            found.append(
                Finding(
                    "error",
                    "format",
                    f"vLLM serves Muse Glimmer from a Hugging Face folder, not {spec.target.path}.",
                    "Name an artefact of format hf.",
                )
            )
        if spec.speculation == "dspark" and spec.device == "cpu":
            found.append(
                Finding(
                    "error",
                    "dspark-needs-v2-runner",
                    "DSpark needs vLLM's V2 model runner, which CPU builds do not have.",
                    "Use a GPU, or backend llamacpp or sglang on this machine.",
                )
            )
        return found

    def call(self, request: Request, model: str) -> Call:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": model,
            "prompt": list(request.prompt_ids),
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "seed": request.seed,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop_token_ids": list(request.end_token_ids),
            "ignore_eos": False,
            # Masks the end tokens until that many tokens are out, with a drafter too.
            "min_tokens": request.max_tokens if request.fixed_length else 0,
            "skip_special_tokens": False,
        }
        if request.top_tokens:
            body |= {"logprobs": request.top_tokens, "return_tokens_as_token_ids": True}
        return Call("/v1/completions", body)

    def chunk(self, event: Mapping[str, Any]) -> Chunk:
        if "error" in event:
            return Chunk(error=error_text(event["error"]))
        tokens: tuple[int, ...] = ()
        finish: str | None = None
        choices = event.get("choices", [])
        if choices:
            ids = choices[0].get("token_ids")
            if ids is not None and not isinstance(ids, list):
                raise ValueError(f"choices[0].token_ids is a {type(ids).__name__}, not a list")
            tokens = tuple(ids) if ids else ()
            finish = choices[0].get("finish_reason")
        usage = event.get("usage") or {}
        return Chunk(
            token_ids=tokens,
            finish=finish,
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            speculation=_request_speculation(event.get("metrics")),
            top=_top(choices[0].get("logprobs")) if choices else (),
        )

    def slot_context(self, facts: Mapping[str, Any]) -> int | None:
        models = (facts.get("/v1/models") or {}).get("data") or []
        return models[0].get("max_model_len") if models else None

    def reported(
        self, facts: Mapping[str, Any], log: str, env: Mapping[str, str]
    ) -> Mapping[str, str]:
        del facts, env
        return reported(log)

    def verification(self, spec: ServeSpec, sampling: Sampling) -> str:
        if spec.drafter is None:
            return "none"
        return "exact-argmax" if sampling.greedy else "rejection-sampling, greedy draft"


def _top(logprobs: Any) -> tuple[tuple[int, float], ...]:
    """Keys are `token_id:7`, as asked for with return_tokens_as_token_ids."""
    if not isinstance(logprobs, dict):
        return ()
    rows = logprobs.get("top_logprobs")
    first = rows[0] if rows else {}
    return tuple((int(key.removeprefix("token_id:")), value) for key, value in first.items())


def _request_speculation(metrics: Any) -> RequestSpeculation | None:
    told = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(told, dict):
        return None
    histogram = told.get("acceptance_histogram")
    return RequestSpeculation(
        steps=told.get("num_spec_steps"),
        drafted=told.get("num_draft_tokens"),
        accepted=sum(j * n for j, n in enumerate(histogram)) if histogram else None,
        histogram=tuple(histogram) if histogram else None,
    )


VLLM = Vllm()
