"""What an engine has to offer. A backend turns a `ServeSpec` into a `LaunchPlan`, a `Request` into
an HTTP `Call`, and what the engine streams back into a `Chunk`; all of it is pure, so it is tested
without an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from backends.base import (
    Call,
    Chunk,
    CounterMap,
    Device,
    LaunchPlan,
    LiveMap,
    Request,
    Sampling,
    ServeSpec,
)
from backends.install import Environment
from backends.patch import Patch
from backends.simulate import Simulated


class Backend(Protocol):
    """An engine. Implemented by a frozen dataclass without inherited code."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str:
        """The engine's own spelling."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """Weight formats it serves, the preferred one first."""
        ...

    @property
    def drafter_formats(self) -> tuple[str, ...]: ...

    @property
    def counters(self) -> CounterMap: ...

    @property
    def live(self) -> LiveMap: ...

    @property
    def patches(self) -> Mapping[str, Patch]:
        """Every declared patch of the engine, by id."""
        ...

    @property
    def versions(self) -> Mapping[Device, tuple[str, ...]]:
        """Releases that museorch installs, the default first."""
        ...

    @property
    def distributions(self) -> tuple[str, ...]:
        """Python distributions it comes as; none where it is a program of its own."""
        ...

    @property
    def takes_rates(self) -> bool:
        """Whether acceptance can be simulated by position, and not by its mean length alone."""
        ...

    @property
    def margin_bytes(self) -> int:
        """Memory for activations, graphs and its own code, over weights and KV cache."""
        ...

    def environment(self, version: str, device: Device) -> Environment:
        """How it is installed, as data."""
        ...

    def plan(self, spec: ServeSpec) -> LaunchPlan:
        """Launch settings for `spec`. Pure: no disk, no GPU, no os.environ."""
        ...

    def simulate(self, plan: LaunchPlan, simulated: Simulated, device: Device) -> LaunchPlan:
        """The plan of a drafted arm with acceptance drawn by the engine.

        Raises InputError where it cannot."""
        ...

    def call(self, request: Request, model: str) -> Call:
        """The streaming request, every sampler setting explicit. `model` is the served name."""
        ...

    def chunk(self, data: bytes) -> Chunk:
        """Read the data of one stream event.

        Raises ValueError when it is not JSON, or naming a field that has the wrong shape."""
        ...

    def slot_context(self, facts: Mapping[str, Any]) -> int | None:
        """Tokens a slot holds, out of the answers of the plan's fact_paths; None if not told."""
        ...

    def reported(
        self, facts: Mapping[str, Any], log: str, env: Mapping[str, str]
    ) -> Mapping[str, str]:
        """kv_dtype, prefix_cache (on, off) and graph_mode (graphs, none) as far as the server
        tells them, in the answers of the plan's fact_paths or in its log. `env` is the plan's."""
        ...

    def verification(self, spec: ServeSpec, sampling: Sampling) -> str:
        """The rule by which drafts are accepted, for the match certificate."""
        ...
