"""llama-server: argv, environment and what speaks against an arm.

Flags as `llama-server --help` of the llama.cpp inside llama-cpp-python 0.3.36 shows them. It wants
`--flag value` as two arguments; `--flag=value` is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backends.base import (
    PORT,
    Call,
    CounterMap,
    Device,
    Drafter,
    Finding,
    LaunchPlan,
    LiveMap,
    Request,
    Sampling,
    ServeSpec,
)
from backends.install import Environment
from backends.llamacpp import wire
from backends.llamacpp.environment import VERSIONS, environment
from backends.llamacpp.reported import reported
from backends.patch import Patch
from backends.preflight import conditions
from backends.simulate import Simulated

SPEC_TYPES = {"dflash": "draft-dflash", "dspark": "draft-dspark"}
MANY_SLOTS = 8
MOST_SLOTS = 256
"""Sequences of one context, as llama-server 0.3.36 says."""


def effective_draft_tokens(drafter: Drafter, asked: int) -> int:
    """K after the server's clamp: a block holds the anchor plus block_size - 1 drafts."""
    return min(asked, drafter.block_size - 1)


NO_PATCHES: Mapping[str, Patch] = {}


@dataclass(frozen=True)
class LlamaCpp:
    name: str = "llamacpp"
    title: str = "llama.cpp"
    versions: Mapping[Device, tuple[str, ...]] = field(default_factory=lambda: VERSIONS)
    distributions: tuple[str, ...] = ()
    takes_rates: bool = True
    margin_bytes: int = 1 << 30
    formats: tuple[str, ...] = ("gguf",)
    drafter_formats: tuple[str, ...] = ("gguf",)
    patches: Mapping[str, Patch] = field(default_factory=lambda: NO_PATCHES)
    counters: CounterMap = CounterMap(
        steps="llamacpp:spec_decode_num_drafts_total",
        drafted="llamacpp:spec_decode_num_draft_tokens_total",
        accepted="llamacpp:spec_decode_num_accepted_tokens_total",
        per_position="llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
        # b, g, a: beginning a prompt, generating drafts, accepting them.
        drafting_log=r"#calls\(b,g,a\) = +\d+ +(?P<passes>\d+) .*"
        r"dur\(b,g,a\) = [\d.]+, (?P<ms>[\d.]+),",
    )
    live: LiveMap = LiveMap(
        "llamacpp:tokens_predicted_total",
        "llamacpp:requests_processing",
        "llamacpp:requests_deferred",
        slots="/slots",
    )

    def environment(self, version: str, device: Device) -> Environment:
        return environment(version, device)

    def plan(self, spec: ServeSpec) -> LaunchPlan:
        argv = [
            spec.executable,
            *("--model", spec.target.path),
            *("--alias", spec.served_name),
            *("--host", spec.host, "--port", PORT),
            # -c is shared out over the slots, so it is slots times what one slot gets.
            *("--ctx-size", str(spec.context_length * spec.slots)),
            *("--parallel", str(spec.slots), "--no-kv-unified"),
            *("--cache-type-k", spec.kv_dtype, "--cache-type-v", spec.kv_dtype),
            *("--flash-attn", "on"),
            # Left on, --fit changes settings to suit free memory.
            *("--fit", "off"),
            *(() if spec.purpose == "serve" else ("--no-cache-prompt", "--cache-ram", "0")),
            "--no-context-shift",
            *("--metrics", "--no-ui", "--no-mmproj", "--offline"),
            *("--log-colors", "off"),
            # From 4 on its log tells the time of drafting and the type of the KV cache.
            *(() if spec.purpose == "serve" else ("--log-verbosity", "4")),
        ]
        env = dict(spec.extra_env)
        if spec.device == "cuda":
            argv += ["--gpu-layers", "999"]
        elif spec.purpose == "measure":
            # K-quant kernels for several tokens sum in another order than those for one, so that
            # drafted output would drift from plain output. BF16 and Q8_0 are not concerned.
            argv += ["--no-repack"]
            env = {"GGML_CPU_TILED_MM": "0", **env}
        if spec.threads is not None:
            argv += ["--threads", str(spec.threads), "--threads-batch", str(spec.threads)]
        draft_tokens: int | None = None
        if spec.drafter is not None and spec.draft_tokens is not None:
            draft_tokens = effective_draft_tokens(spec.drafter, spec.draft_tokens)
            argv += [
                *("--model-draft", spec.drafter.weights.path),
                *("--spec-type", SPEC_TYPES[spec.drafter.family]),
                *("--spec-draft-n-max", str(draft_tokens)),
                *("--spec-draft-n-min", "0", "--spec-draft-p-min", "0"),
                *("--cache-type-k-draft", spec.kv_dtype, "--cache-type-v-draft", spec.kv_dtype),
            ]
            if spec.device == "cuda":
                argv += ["--gpu-layers-draft", "999"]
        return LaunchPlan(
            backend=self.name,
            argv=(*argv, *spec.extra_args),
            env=env,
            health_path="/health",
            start_timeout_s=60.0 if spec.device == "cpu" else 600.0,
            fact_paths=("/props", "/v1/models"),
            findings=tuple(self._findings(spec)),
            draft_tokens=draft_tokens,
            conditions=conditions(spec),
            key_env="LLAMA_API_KEY",
        )

    def _findings(self, spec: ServeSpec) -> list[Finding]:
        found: list[Finding] = []
        if spec.target.format != "gguf":
            found.append(
                Finding(
                    "error",
                    "format",
                    f"llama.cpp reads GGUF files, not {spec.target.path}.",
                    "Name a GGUF artefact, or make one with llama.cpp's converter.",
                )
            )
        if spec.slots > MOST_SLOTS:
            found.append(
                Finding(
                    "error",
                    "slots",
                    f"llama.cpp serves {MOST_SLOTS} requests at a time, not {spec.slots}.",
                    "Ask for fewer.",
                )
            )
        if spec.drafter is None or spec.draft_tokens is None:
            return found
        kept = effective_draft_tokens(spec.drafter, spec.draft_tokens)
        if kept < spec.draft_tokens:
            found.append(
                Finding(
                    "info",
                    "draft-tokens-clamped",
                    f"llama.cpp clamps K {spec.draft_tokens} to {kept} "
                    f"(block {spec.drafter.block_size} less the anchor).",
                )
            )
        if spec.slots >= MANY_SLOTS:
            found.append(
                Finding(
                    "warning",
                    "many-drafting-slots",
                    f"{spec.slots} drafting slots: acceptance is reported to collapse "
                    f"from {MANY_SLOTS} on (llama.cpp#27117).",
                    "Use fewer slots, or watch position-0 acceptance.",
                )
            )
        return found

    def simulate(self, plan: LaunchPlan, simulated: Simulated, device: Device) -> LaunchPlan:
        """Source: common/arg.cpp."""
        del device
        if simulated.rates is not None:
            more = ("--spec-synth-rates", ",".join(f"{rate:g}" for rate in simulated.rates))
        else:
            more = ("--spec-synth-len", f"{simulated.length:g}")
        return replace(plan, argv=(*plan.argv, *more))

    def call(self, request: Request, model: str) -> Call:
        return wire.call(request, model)

    chunk = staticmethod(wire.chunk)

    def slot_context(self, facts: Mapping[str, Any]) -> int | None:
        settings = (facts.get("/props") or {}).get("default_generation_settings") or {}
        return settings.get("n_ctx")

    def reported(
        self, facts: Mapping[str, Any], log: str, env: Mapping[str, str]
    ) -> Mapping[str, str]:
        del facts
        return reported(log, env)

    def verification(self, spec: ServeSpec, sampling: Sampling) -> str:
        if spec.drafter is None:
            return "none"
        return "exact-argmax" if sampling.greedy else "target-draw-equals-draft"


LLAMACPP = LlamaCpp()
