"""SGLang's server."""

from backends.sglang.launch import SGLANG

__all__ = ["SGLANG"]
