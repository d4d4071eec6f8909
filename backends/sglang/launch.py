"""SGLang: argv, environment and what speaks against an arm. Flags of SGLang 0.5.18 to 0.5.23."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backends.base import (
    PORT,
    PUBLISHED_VOCABULARY,
    Call,
    CounterMap,
    Device,
    LaunchPlan,
    LiveMap,
    Overlay,
    Request,
    Sampling,
    ServeSpec,
)
from backends.install import Environment
from backends.patch import Patch, needed
from backends.preflight import PACKAGES, conditions
from backends.sglang import wire
from backends.sglang.environment import VERSIONS, environment
from backends.sglang.findings import findings
from backends.sglang.patches import PATCHES, for_weights
from backends.sglang.reported import reported
from backends.simulate import Simulated

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
ALGORITHMS = {"dflash": "DFLASH", "dspark": "DSPARK"}

MEASURING = (
    *("--disable-radix-cache", "--enable-metrics", "--skip-server-warmup"),
    *("--sampling-backend", "pytorch", "--random-seed", "0"),
)
SERVING = (
    *("--enable-metrics", "--skip-server-warmup"),
    *("--reasoning-parser", "muse", "--tool-call-parser", "muse"),
)

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
    title: str = "SGLang"
    versions: Mapping[Device, tuple[str, ...]] = field(default_factory=lambda: VERSIONS)
    distributions: tuple[str, ...] = ("sglang",)
    takes_rates: bool = False
    margin_bytes: int = 3 << 30
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

    def environment(self, version: str, device: Device) -> Environment:
        return environment(version, device)

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
                *needed(self.patches, spec.engine_version, spec.device, spec.speculation),
                *for_weights(spec.target, spec.speculation),
            ),
            modules=_modules(spec),
            overlays=self._overlays(spec),
            findings=tuple(findings(spec)),
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

    def simulate(self, plan: LaunchPlan, simulated: Simulated, device: Device) -> LaunchPlan:
        """Source: srt/environ.py and srt/speculative/spec_utils.py.

        The length is drawn anew for each step, rounded up or down, and counts the token after the
        drafts, as elsewhere.
        """
        del device
        env = {
            **plan.env,
            "SGLANG_SIMULATE_ACC_LEN": f"{simulated.expected_length:g}",
            "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
            "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
        }
        return replace(plan, env=env)

    def call(self, request: Request, model: str) -> Call:
        return wire.call(request, model)

    chunk = staticmethod(wire.chunk)

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


SGLANG = Sglang()
