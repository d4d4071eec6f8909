"""The six faults of the launch image: found, mended, checked and taken back."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from backends.base import Drafter, ServeSpec, Weights
from backends.patch import needed
from backends.vllm.launch import VLLM
from backends.vllm.patches import PATCHES
from orchestrator.patching import apply, revert, status, verify
from orchestrator.patching.dockerfile import dockerfile, launch, script_of
from tests.orchestrator.patching.launch_image import EDITED, VERSION, packages
from tests.orchestrator.patching.tree import hashes


def load(folder: Path, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("patched", folder / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_are_found_mended_checked_and_taken_back(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    before = hashes(folder)
    ids = needed(PATCHES, VERSION, "cuda", "dflash")
    assert set(ids) == EDITED
    found = {state.id: state.state for state in status(folder, PATCHES.values(), "cuda")}
    assert {name for name, state in found.items() if state == "needed"} == EDITED

    apply(folder, [PATCHES[name] for name in ids])
    assert verify(folder) == ()
    found = {state.id: state.state for state in status(folder, PATCHES.values(), "cuda")}
    assert {name for name, state in found.items() if state == "applied"} == EDITED

    revert(folder)
    assert hashes(folder) == before


def test_the_mended_code_does_what_the_drafter_needs(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, [PATCHES[name] for name in needed(PATCHES, VERSION, "cuda", "dflash")])

    registry = load(folder, "vllm/model_executor/models/registry.py")
    assert "DFlashMuseGlimmerAssistantModel" in registry._SPECULATIVE_DECODING_MODELS

    speculative = load(folder, "vllm/config/speculative.py").SpeculativeConfig
    config = SimpleNamespace(
        architectures=["MuseGlimmerAssistantModel"], vocab_size=151936, sliding_window=None
    )
    speculative.hf_config_override(config)
    assert (config.vocab_size, config.sliding_window) == (202048, 2048)
    other = SimpleNamespace(architectures=["Qwen3"], vocab_size=151936, sliding_window=None)
    speculative.hf_config_override(other)
    assert (other.vocab_size, other.sliding_window) == (151936, None)

    dflash = load(folder, "vllm/model_executor/models/qwen3_dflash.py")
    names = dflash.DFlashQwen3Model.hf_to_vllm_mapper["orig_to_new_substr"]
    assert names["encoder.fc."] == "fc."
    target = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 202048))
    model = dflash.DFlashQwen3ForCausalLM(target, SimpleNamespace(vocab_size=151936))
    assert model.config.draft_vocab_size == 202048

    decoder = SimpleNamespace(embed_tokens="embeddings")
    wrapper = load(folder, "vllm/v1/worker/gpu/spec_decode/dflash/utils.py")
    assert wrapper.load_dflash_model(decoder) is decoder


def test_the_sixth_is_a_launch_rule() -> None:
    """1024 slots of 14 drafts took 8192 batched tokens below zero."""
    weights = Weights("x", "hf", "bf16", "x")
    drafter = Drafter("dflash", weights, 16, 15)
    spec = ServeSpec("python", VERSION, "cuda", weights, drafter, 15, 4096, 1024)
    argv = VLLM.plan(spec).argv
    batched = int(argv[argv.index("--max-num-batched-tokens") + 1])
    slots = int(argv[argv.index("--max-num-seqs") + 1])
    assert batched - 15 * slots >= 8192


def test_the_dockerfile_does_the_same_without_museorch(tmp_path: Path) -> None:
    by_hand, by_museorch = packages(tmp_path / "image"), packages(tmp_path / "env")
    chosen = [patch for patch in PATCHES.values() if "dflash" in patch.speculation]
    chosen = [patch for patch in chosen if "cuda" in patch.devices]
    text = dockerfile("image", "vllm", chosen, launch("vllm", None, "dflash", slots=8, context=512))
    assert '"--max-num-seqs", "8"' in text
    run = subprocess.run(
        [sys.executable, "-S", "-"],
        input=script_of(text),
        text=True,
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(by_hand), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert run.stdout.count(": applies\n") == len(EDITED)
    apply(by_museorch, chosen)
    revised = hashes(by_museorch)
    assert {file: revised[file] for file in hashes(by_hand)} == hashes(by_hand)


@pytest.mark.parametrize("count", [0, 2])
def test_the_dockerfile_stops_where_a_patch_does_not_fit(tmp_path: Path, count: int) -> None:
    folder = packages(tmp_path)
    registry = folder / "vllm/model_executor/models/registry.py"
    lines = registry.read_text().splitlines(keepends=True)
    registry.write_text("".join([*lines[:2], *lines[2:3] * count, *lines[3:]]))
    before = hashes(folder)
    plan = launch("vllm", None, "dflash", slots=8, context=512)
    text = dockerfile("image", "vllm", [PATCHES["vllm-registry-alias"]], plan)
    run = subprocess.run(
        [sys.executable, "-S", "-"],
        input=script_of(text),
        text=True,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert run.returncode == 1
    assert f"vllm-registry-alias: the text to replace occurs {count} times" in run.stderr
    assert hashes(folder) == before
