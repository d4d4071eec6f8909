"""The engines museorch drives. A literal: add one by adding a folder and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from backends.llamacpp import LLAMACPP
from backends.protocol import Backend
from backends.sglang import SGLANG
from backends.vllm import VLLM

BACKENDS: Mapping[str, Backend] = {"vllm": VLLM, "sglang": SGLANG, "llamacpp": LLAMACPP}
