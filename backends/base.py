"""What the flow and the engines share, as plain values.

`orchestrator` imports from here, never the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

BackendName = Literal["vllm", "sglang", "llamacpp"]
Speculation = Literal["none", "dflash", "dspark"]
Device = Literal["cpu", "cuda"]
Level = Literal["error", "warning", "info"]
Purpose = Literal["measure", "serve"]

DTYPE_WORDS = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32"}
"""torch's names in a recipe's words."""

PORT = "{port}"
"""Stands in a plan's argv for the port, which is chosen when the server starts."""

PUBLISHED_VOCABULARY = 202048
"""Muse Glimmer's vocabulary, which engines assume where a drafter's config names none."""


@dataclass(frozen=True)
class Weights:
    """One artefact on disk, and what it was made from."""

    path: str
    format: Literal["hf", "gguf"]
    quantisation: str
    """As the field names it: `bf16`, `q4_k_m`, `nvfp4`."""
    identity: str
    """Name of the checkpoint. Two formats of one checkpoint share it."""
    fetch: str | None = None
    """The command that brings it to this machine; None where it is here."""
    dummy: bool = False
    """Of the checkpoint's shape, with random values: for speed alone."""


@dataclass(frozen=True)
class Drafter:
    """A drafter and the shape facts that launching it depends on."""

    family: Literal["dflash", "dspark"]
    weights: Weights
    block_size: int
    """Positions of one drafting pass, the anchor included where `sample_from_anchor` is None."""
    max_draft_tokens: int
    """Largest K the head was trained for (DFlash: block - 1; DSpark without anchor: block)."""
    target_layer_ids: tuple[int, ...] = ()
    """Zero-based target layers whose outputs are read."""
    sample_from_anchor: bool | None = None
    """DSpark only: whether the anchor position itself yields a draft."""
    vocab_size: int = PUBLISHED_VOCABULARY
    """Of the target; published DFlash configs leave it out."""


@dataclass(frozen=True)
class ServeSpec:
    """What is to be served, in no engine's words."""

    executable: str
    """The engine's Python interpreter (vLLM, SGLang) or server binary (llama.cpp)."""
    engine_version: str
    """As `engines list` shows it, for instance `0.32.0`."""
    device: Device
    target: Weights
    drafter: Drafter | None
    draft_tokens: int | None
    """K: drafted tokens per step, whatever the engine calls it. None without a drafter."""
    context_length: int
    """Tokens per slot, prompt and output together."""
    slots: int
    """Requests decoded at the same time."""
    kv_dtype: str = "bf16"
    threads: int | None = None
    """CPU threads for the forward pass; None leaves it to the engine."""
    served_name: str = "muse"
    host: str = "127.0.0.1"
    extra_args: tuple[str, ...] = ()
    extra_env: Mapping[str, str] = field(default_factory=dict)
    purpose: Purpose = "measure"
    """measure: nothing shared between requests, every sampler setting ours. serve: prefix cache,
    the model's own sampling defaults, and reasoning and tool calls taken apart."""

    @property
    def speculation(self) -> Speculation:
        return self.drafter.family if self.drafter else "none"


@dataclass(frozen=True)
class Finding:
    """Something preflight noticed. An `error` stops the arm before anything is started."""

    level: Level
    code: str
    text: str
    fix: str | None = None


@dataclass(frozen=True)
class Overlay:
    """A folder of links to a checkpoint plus a config.json with some keys set.

    Used where a checkpoint's config is what an engine trips over: the checkpoint stays untouched.
    """

    source: str
    why: str
    placeholder: str
    """Stands in argv for the overlay's path, which exists only once the server starts."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """New key (dotted where nested) -> the key whose value it takes; an existing key is kept."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Key (dotted where nested) -> value to set."""


@dataclass(frozen=True)
class LaunchPlan:
    """Everything needed to start one server. Holds no secrets and no port."""

    backend: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    health_path: str
    start_timeout_s: float
    fact_paths: tuple[str, ...] = ()
    """GET endpoints whose answers are kept as facts about the server."""
    patches: tuple[str, ...] = ()
    """Ids of the engine patches without which this arm does not run right."""
    modules: tuple[str, ...] = ()
    """Python modules, and files in them such as `vllm/x.py`, that its environment must have."""
    overlays: tuple[Overlay, ...] = ()
    findings: tuple[Finding, ...] = ()
    draft_tokens: int | None = None
    """K as the engine will use it, after its own clamping."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Settings that matter for matching and that this argv fixes: prefix cache, graphs."""
    key_env: str | None = None
    """Variable by which the engine takes an API key; None where argv, which anyone can read, is
    its only way, or where it writes the key to its log."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn: temperature first, then top-k, then top-p; nothing else."""

    temperature: float
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps the whole vocabulary."""

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


@dataclass(frozen=True)
class Request:
    """One prompt, rendered once to token ids, sent unchanged to every engine."""

    id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    seed: int
    end_token_ids: tuple[int, ...]
    fixed_length: bool
    """True: end tokens get probability 0, so that exactly `max_tokens` come out everywhere.
    False: generation ends at the first end token."""
    top_tokens: int = 0
    """How many of the likeliest tokens to tell with each token."""


@dataclass(frozen=True)
class Call:
    """A streaming HTTP POST."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class RequestSpeculation:
    """What an engine says of speculation for one request; None is `not told`."""

    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    histogram: tuple[int, ...] | None = None
    """Number of steps that accepted exactly j drafts, j = 0..K."""


class Chunk(Struct, frozen=True, gc=False):
    """One streamed event: facts only. A Struct, since the client makes one for every event."""

    token_ids: tuple[int, ...] = ()
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    speculation: RequestSpeculation | None = None
    error: str | None = None
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens of its first position with their log-probabilities at T 1."""


@dataclass(frozen=True)
class CounterMap:
    """Names of an engine's cumulative Prometheus samples; None where it has none."""

    steps: str | None
    drafted: str | None
    accepted: str | None
    per_position: str | None
    position_label: str = "position"
    drafting_log: str | None = None
    """Pattern of the log line that tells, from the server's start on, how often it drafted and how
    many ms that took: groups `passes` and `ms`."""


@dataclass(frozen=True)
class LiveMap:
    """Names of the Prometheus samples that say what a server is doing now."""

    generated: str
    """Counter of generated tokens."""
    running: str
    waiting: str
    requests: str | None = None
    """Counter of finished requests, for an engine that counts steps but no accepted drafts."""
    rate: str | None = None
    """Gauge of tokens a second, for an engine that counts tokens only when a request ends."""
    slots: str | None = None
    """GET endpoint that tells what running requests have generated, for such an engine too."""


@dataclass(frozen=True)
class SpecRecord:
    """Speculation over one phase, the same for every engine.

    Acceptance length is 1 + accepted / steps; marginal acceptance at position i is
    per_position[i] / steps (both as vLLM's spec-decode metrics define them).
    """

    steps: int
    drafted: int
    accepted: int
    per_position: tuple[int, ...] | None
    """Accepted drafts at positions 0..K-1, or None where the engine does not tell."""
    source: Literal["counters", "requests"]
    draft_passes: int | None = None
    """Runs of the drafter, each for all requests in flight; None where the engine does not tell."""
    draft_ms: float | None = None
    """Time of all of them."""


def error_text(error: Any) -> str:
    """The message of an error event, in the form that OpenAI's API gives it or as it is."""
    return str(error.get("message", error) if isinstance(error, dict) else error)
