"""What servers say of their own settings, and what follows where it is not what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends import BACKENDS
from orchestrator.serving.reported import settle, told

LLAMACPP = """\
0.00.053 I cmn  common_param: system_info: n_threads = 1 | CUDA : ARCHS = 900 | USE_GRAPHS = 1 | CPU
0.00.104 I llama_kv_cache: size =    0.50 MiB (  1024 cells,   1 layers), K (bf16):    0.25 MiB, \
V (bf16):    0.25 MiB
0.00.110 I common_speculative_init_result: loading draft model 'a.gguf'
0.00.128 I llama_kv_cache: size =    0.75 MiB (   768 cells,   2 layers), K (f16):    0.38 MiB, \
V (f16):    0.38 MiB
0.00.352 I slot   operator(): id  1 | task 0 | cached n_tokens = 0, memory_seq_rm [0, end)
0.00.356 I slot   operator(): id  1 | task 0 | cached n_tokens = 7, memory_seq_rm [7, end)
"""
VLLM = (
    "INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='a', "
    "dtype=torch.bfloat16, kv_cache_dtype=auto, enable_prefix_caching=False, "
    "compilation_config={{'mode': 3, 'cudagraph_mode': <CUDAGraphMode.{}: 0>, 'x': []}}\n"
)
SGLANG = (
    "[2026-11-30] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 512, K size: 0.00 GB\n"
)


@pytest.mark.parametrize(
    ("backend", "facts", "log", "expected"),
    [
        ("llamacpp", {}, LLAMACPP, ("bf16", "off", "graphs")),
        (
            "llamacpp",
            {},
            LLAMACPP.replace("n_tokens = 0", "n_tokens = 5").replace("V (bf16)", "V (q8_0)"),
            ("bf16/q8_0", "on", "graphs"),
        ),
        ("vllm", {}, VLLM.format("NONE"), ("bf16", "off", "none")),
        (
            "vllm",
            {},
            VLLM.format("FULL_AND_PIECEWISE").replace("=auto", "=fp8").replace("False", "True"),
            ("fp8", "on", "graphs"),
        ),
        (
            "sglang",
            {"disable_radix_cache": True, "cuda_graph_config": {"decode": {"backend": "disabled"}}},
            SGLANG,
            ("bf16", "off", "none"),
        ),
        (
            "sglang",
            {"disable_radix_cache": False, "disable_cuda_graph": False},
            SGLANG.replace("bfloat16", "float8_e5m2"),
            ("float8_e5m2", "on", "graphs"),
        ),
    ],
)
def test_what_each_engine_tells(
    backend: str, facts: dict[str, Any], log: str, expected: tuple[str, str, str]
) -> None:
    found = BACKENDS[backend].reported({"/server_info": facts} if facts else {}, log, {})
    assert (found["kv_dtype"], found["prefix_cache"], found["graph_mode"]) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_server_that_tells_nothing(backend: str, tmp_path: Path) -> None:
    assert told({"backend": backend}, {}, tmp_path / "server.log") == {}
    (tmp_path / "server.log").write_bytes(b"\xff listening\n")
    assert told({"backend": backend}, {}, tmp_path / "server.log") == {}


def test_a_variable_switches_llamacpps_graphs_off() -> None:
    found = BACKENDS["llamacpp"].reported({}, LLAMACPP, {"GGML_CUDA_DISABLE_GRAPHS": "1"})
    assert found["graph_mode"] == "none"


ASKED = {
    "kv_dtype": "bf16",
    "prefix_cache": "off",
    "graph_mode": "engine default",
    "context_per_slot": 1000,
}


def test_reported_before_set_and_no_slot_is_guessed() -> None:
    conditions, sources, problems = settle(ASKED, {"prefix_cache": "off", "graph_mode": "graphs"})
    assert conditions == {**ASKED, "graph_mode": "graphs", "context_per_slot": None}
    assert sources == {"kv_dtype": "set", "prefix_cache": "reported", "graph_mode": "reported"}
    assert problems == []


def test_a_contradiction_is_told_with_both_sides() -> None:
    found = {"kv_dtype": "f16", "prefix_cache": "on", "context_per_slot": 512}
    _, _, problems = settle(ASKED, found)
    assert problems == [
        "the server reports kv dtype f16, bf16 was asked for",
        "the server reports prefix cache on, off was asked for",
        "the server reports context per slot 512, 1000 was asked for",
    ]
    assert settle(ASKED, {"context_per_slot": 1024})[2] == []


def test_arguments_of_the_recipe_may_change_what_is_set() -> None:
    asked = {**ASKED, "engine_args": "--cache-type-k f16 --cache-type-v f16"}
    conditions, sources, problems = settle(asked, {"kv_dtype": "f16"})
    assert (conditions["kv_dtype"], sources["kv_dtype"], problems) == ("f16", "reported", [])


def test_a_cpu_has_no_graphs_whoever_says_so() -> None:
    asked = {**ASKED, "graph_mode": "none (CPU)"}
    conditions, _, problems = settle(asked, {"graph_mode": "none"})
    assert (conditions["graph_mode"], problems) == ("none (CPU)", [])
    assert settle(asked, {"graph_mode": "graphs"})[2]
