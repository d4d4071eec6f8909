"""Plans for serving: what differs from measuring, and findings before anything is started."""

from __future__ import annotations

from typing import Literal

import pytest

from backends import BACKENDS
from backends.base import Finding, ServeSpec
from tests.backends.specs import option, spec


def kind(backend: str) -> Literal["hf", "gguf"]:
    return "gguf" if backend == "llamacpp" else "hf"


def served(backend: str) -> tuple[str, ...]:
    asked = spec("dflash", format_=kind(backend), purpose="serve")
    return BACKENDS[backend].plan(asked).argv


def measured(backend: str) -> tuple[str, ...]:
    return BACKENDS[backend].plan(spec("dflash", format_=kind(backend))).argv


@pytest.mark.parametrize(
    ("backend", "reasoning", "tools"),
    [("vllm", "muse_glimmer", "muse_glimmer"), ("sglang", "muse", "muse")],
)
def test_reasoning_and_tool_calls_are_taken_apart(backend: str, reasoning: str, tools: str) -> None:
    argv = served(backend)
    assert option(argv, "--reasoning-parser") == reasoning
    assert option(argv, "--tool-call-parser") == tools
    assert "--reasoning-parser" not in measured(backend)


@pytest.mark.parametrize(
    ("backend", "off"),
    [
        ("vllm", "--no-enable-prefix-caching"),
        ("sglang", "--disable-radix-cache"),
        ("llamacpp", "--no-cache-prompt"),
    ],
)
def test_the_prefix_cache_is_on_for_serving_only(backend: str, off: str) -> None:
    assert off in measured(backend)
    assert off not in served(backend)
    plans = [BACKENDS[backend].plan(spec(purpose=purpose)) for purpose in ("measure", "serve")]
    assert [plan.conditions["prefix_cache"] for plan in plans] == ["off", "on"]


def test_the_models_own_sampling_is_the_default_for_serving() -> None:
    assert option(measured("vllm"), "--generation-config") == "vllm"
    assert "--generation-config" not in served("vllm")


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("purpose", ["measure", "serve"])
def test_no_code_of_a_checkpoint_is_run(backend: str, purpose: str) -> None:
    argv = BACKENDS[backend].plan(spec("dspark", format_=kind(backend), purpose=purpose)).argv
    assert not [word for word in argv if "trust" in word]
    assert option(argv, "--host") == "127.0.0.1"


def findings(backend: str, asked: ServeSpec, code: str) -> list[Finding]:
    return [finding for finding in BACKENDS[backend].plan(asked).findings if finding.code == code]


@pytest.mark.parametrize(
    ("backend", "version", "wrong"),
    [
        ("vllm", "0.27.1", True),
        ("vllm", "0.28.0", False),
        ("vllm", "0.33.0.dev4", False),
        ("sglang", "0.5.17", True),
        ("sglang", "0.5.18", False),
    ],
)
def test_an_engine_before_the_architecture(backend: str, version: str, wrong: bool) -> None:
    found = findings(backend, spec("dflash", engine_version=version), "engine-version")
    assert [finding.level for finding in found] == ["error"] * wrong


def test_a_build_without_tags_is_not_refused() -> None:
    asked = spec("dflash", engine_version="0.1.dev1+g0a1b2c3")
    assert [finding.level for finding in findings("vllm", asked, "engine-version")] == ["warning"]


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_more_drafts_than_the_block_has(backend: str) -> None:
    code = "draft-tokens-above-block"
    assert not findings(backend, spec("dflash", draft_tokens=15), code)
    (found,) = findings(backend, spec("dflash", draft_tokens=16), code)
    assert found.fix == "Use 1 to 15."


@pytest.mark.parametrize(
    ("version", "args", "level"),
    [
        # The launch image's: 8192 - 15 x 1024 is below nothing.
        ("0.28.0", ("--max-num-batched-tokens", "8192", "--max-num-seqs", "1024"), "error"),
        ("0.28.0", ("--max-num-batched-tokens=8192", "--max-num-seqs=64"), "warning"),
        ("0.28.0", ("--max-num-batched-tokens", "16384", "--max-num-seqs", "64"), None),
        ("0.32.0", ("--max-num-batched-tokens", "8192", "--max-num-seqs", "1024"), "warning"),
        ("0.32.0", ("--max-num-batched-tokens", "15"), "error"),
        ("0.33.0", ("--max-num-batched-tokens", "8192"), None),
        ("0.28.0", (), None),
    ],
)
def test_tokens_left_to_schedule(version: str, args: tuple[str, ...], level: str | None) -> None:
    asked = spec("dflash", engine_version=version, extra_args=args)
    found = findings("vllm", asked, "scheduled-tokens")
    assert [finding.level for finding in found] == ([level] if level else [])


def test_the_numbers_proposed_are_enough() -> None:
    args = ("--max-num-batched-tokens", "8192", "--max-num-seqs", "1024")
    asked = spec("dflash", engine_version="0.28.0", extra_args=args)
    (found,) = findings("vllm", asked, "scheduled-tokens")
    assert found.text.startswith("vLLM 0.28.0 would have -7168 tokens to schedule")
    words = str(found.fix).replace(",", "").replace(".", "").split()
    batch, sequences = (int(word) for word in words if word.isdigit())
    for proposed in (
        ("--max-num-batched-tokens", str(batch), "--max-num-seqs", "1024"),
        ("--max-num-batched-tokens", "8192", "--max-num-seqs", str(sequences)),
    ):
        asked = spec("dflash", engine_version="0.28.0", extra_args=proposed)
        left = findings("vllm", asked, "scheduled-tokens")
        assert not [finding for finding in left if finding.level == "error"]


@pytest.mark.parametrize(
    ("backend", "variable"),
    [("vllm", "VLLM_API_KEY"), ("llamacpp", "LLAMA_API_KEY"), ("sglang", None)],
)
def test_where_a_key_goes(backend: str, variable: str | None) -> None:
    assert BACKENDS[backend].plan(spec(purpose="serve")).key_env == variable
