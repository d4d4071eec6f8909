"""Special tokens and the rendering of conversations.

The token strings and the message framing are those of Muse Glimmer, as its parsers in the engines
expect them (vLLM's `muse_glimmer` reasoning and tool parsers, llama.cpp's chat parser). The ids are
ours: the model's vocabulary has 1,024 entries and the special tokens are its first ones.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

SPECIAL_TOKENS: tuple[str, ...] = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|eot|>",
    "<|pad|>",
    "<|mask|>",
    "<|patch|>",
    "<|video|>",
    "<|image|>",
    "<|eom|>",
    "<|start|>",
    "<|message|>",
    "<|image_start|>",
    "<|image_end|>",
    "<|vid_start|>",
    "<|vid_end|>",
    "<|vid_frame_separator|>",
)
TOKEN_ID = {token: index for index, token in enumerate(SPECIAL_TOKENS)}
BOS, EOS, EOT = TOKEN_ID["<|begin_of_text|>"], TOKEN_ID["<|end_of_text|>"], TOKEN_ID["<|eot|>"]
PAD, MASK, EOM = TOKEN_ID["<|pad|>"], TOKEN_ID["<|mask|>"], TOKEN_ID["<|eom|>"]
VOCAB_SIZE = 1024

STRENGTHS = ("low", "medium", "high", "xhigh")
TEMPLATE_PATH = Path(__file__).with_name("chat_template.jinja")


@cache
def _template() -> jinja2.Template:
    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    # The same options as transformers' apply_chat_template, so that training text and served
    # prompts cannot differ in white space.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    environment.filters["tojson"] = _tojson
    return environment.from_string(TEMPLATE_PATH.read_text())


def _tojson(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def render(
    messages: list[dict[str, Any]],
    *,
    strength: str = "high",
    tools: list[dict[str, Any]] | None = None,
    generation_prompt: bool = False,
) -> str:
    """Render a conversation to text, special tokens written out, starting with BOS."""
    return _template().render(
        messages=messages,
        tools=tools,
        reasoning_strength=strength,
        add_generation_prompt=generation_prompt,
        bos_token=SPECIAL_TOKENS[BOS],
    )
