"""Ways of sampling, as a recipe names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from backends.base import Sampling
from orchestrator.inputs.document import Strict, suggestion


class Mode(Strict):
    """A way of sampling under a name. `greedy` and `temperature` are known without one."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="In reports and results")
    temperature: float = Field(ge=0, le=10)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0, description="0 keeps the whole vocabulary")
    stop: Literal["fixed", "natural"] | None = Field(
        default=None, description="Left out, the workload's"
    )

    @model_validator(mode="after")
    def _greedy_is_greedy(self) -> Mode:
        if self.name == "greedy" and self.temperature != 0:
            raise ValueError("the mode greedy has temperature 0; give this one another name")
        return self

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.top_k)


KNOWN_MODES = {
    "greedy": Mode(name="greedy", temperature=0.0),
    "temperature": Mode(name="temperature", temperature=1.0, top_p=0.95, top_k=64),
}


def _known_mode(value: Any) -> Any:
    if isinstance(value, str):
        if value not in KNOWN_MODES:
            hint = suggestion(value, KNOWN_MODES)
            hint = hint or "Use greedy, temperature, or {name, temperature, top_p, top_k}."
            raise ValueError(f'mode "{value}" is not known. {hint}')
        return KNOWN_MODES[value]
    return value


NamedMode = Annotated[
    Mode,
    BeforeValidator(_known_mode, json_schema_input_type=Literal["greedy", "temperature"] | Mode),
]
"""Spelt out, or one of KNOWN_MODES by its name."""
