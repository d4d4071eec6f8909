"""vLLM's OpenAI-compatible server."""

from backends.vllm.launch import VLLM

__all__ = ["VLLM"]
