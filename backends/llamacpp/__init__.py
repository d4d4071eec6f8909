"""llama.cpp's server."""

from backends.llamacpp.launch import LLAMACPP

__all__ = ["LLAMACPP"]
