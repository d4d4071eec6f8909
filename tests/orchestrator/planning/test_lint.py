from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends.errors import InputError
from orchestrator.planning.headers import read_headers
from orchestrator.planning.lint import lint
from orchestrator.planning.lint_case import Method
from tests.orchestrator.checkpoints import (
    HIDDEN,
    VOCAB,
    Tensors,
    backbone,
    dflash_config,
    dspark_config,
    dspark_tensors,
    target,
    write_gguf,
    write_hf,
)

BIG = {
    "hidden_size": 6656,
    "vocab_size": 202048,
    "sliding_window": 2048,
    "mask_token_id": 201818,
    "target_layer_ids": [1, 13, 25, 37, 49],
}


def found(
    tmp_path: Path,
    config: dict[str, Any],
    tensors: Tensors,
    method: Method | None = None,
    k: int | None = None,
) -> dict[str, tuple[str, str]]:
    """Code to level and text."""
    drafter = write_hf(tmp_path / "drafter", config, tensors)
    findings = lint(drafter, target(tmp_path / "target"), method=method, draft_tokens=k)
    return {finding.code: (finding.level, finding.text) for finding in findings}


def test_sound_drafters(tmp_path: Path) -> None:
    assert set(found(tmp_path / "a", dflash_config(), backbone(), "dflash", 15)) == {
        "target-layers-nested"
    }
    assert set(found(tmp_path / "b", dspark_config(), dspark_tensors(), "dspark", 16)) == {
        "sglang-layers"
    }


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "architecture", "none that museorch knows"),
        ({"architectures": ["Qwen3DSparkModel"]}, "architecture", "tensors are those of a dflash"),
        ({"vocab_size": 151936}, "vocab-size", f"151936 tokens, the target {VOCAB}"),
        ({"sliding_window": None}, "sliding-window", "no window"),
        ({"use_sliding_window": False}, "sliding-window", "drop the window"),
        ({"target_layer_ids": [0, 2, 5]}, "target-layers", r"[5] are outside 0 to 4"),
        ({"target_layer_ids": [2, 0, 4]}, "target-layers", "not ascending"),
        ({"target_layer_ids": [0, 2]}, "features", "takes 192 features; 2 target layers of 64"),
        ({"target_layer_ids": None}, "target-layers", "No target_layer_ids"),
        ({"dflash_config": {"target_layer_ids": [1, 3, 5]}}, "target-layers", "one or the other"),
        ({"mask_token_id": None}, "mask-token", "No mask_token_id"),
        ({"mask_token_id": 201818}, "mask-token", "outside the target's 128 tokens"),
        ({"block_size": None}, "block-size", "No block_size"),
        ({"hidden_size": 32}, "hidden-size", "shared from a target of 64"),
        ({"num_hidden_layers": 3}, "tensors", "layers.2.self_attn.q_proj.weight"),
        ({"draft_vocab_size": 64}, "draft-vocab", "no d2t table"),
        ({"enable_confidence_head": True}, "confidence-head", "does not have"),
    ],
)
def test_dflash_faults(tmp_path: Path, changes: dict[str, Any], code: str, words: str) -> None:
    level, text = found(tmp_path, dflash_config(**changes), backbone())[code]
    assert level == "error"
    assert words in text


def test_a_missing_vocabulary_is_the_published_ones(tmp_path: Path) -> None:
    small, large = dflash_config(), dflash_config(**BIG)
    del small["vocab_size"], large["vocab_size"]
    level, text = found(tmp_path / "a", small, backbone())["vocab-size"]
    assert level == "error"
    assert "engines then take 202048, and the target has 128" in text
    assert big(tmp_path / "b", large)["vocab-size"] == "info"


@pytest.mark.parametrize(
    ("changes", "code", "level", "words"),
    [
        ({"sample_from_anchor": None}, "sample-from-anchor", "warning", "is not said"),
        ({"markov_rank": 16}, "markov-rank", "error", "a head of rank 8"),
        ({"use_sliding_window": None}, "sliding-window", "error", "drop the window"),
        (
            {"dflash_config": {"final_logit_softcapping": 20.0}},
            "logit-scale",
            "warning",
            "before the Markov bias",
        ),
    ],
)
def test_dspark_faults(
    tmp_path: Path, changes: dict[str, Any], code: str, level: str, words: str
) -> None:
    config = {key: value for key, value in dspark_config(**changes).items() if value is not None}
    shown = found(tmp_path, config, dspark_tensors())[code]
    assert shown[0] == level
    assert words in shown[1]


def test_a_head_that_is_there_and_switched_off(tmp_path: Path) -> None:
    tensors = {**dspark_tensors(), "confidence_head.proj.weight": (1, HIDDEN)}
    assert found(tmp_path, dspark_config(), tensors)["confidence-head"][0] == "warning"


def test_a_markov_head_that_is_missing(tmp_path: Path) -> None:
    shown = found(tmp_path, dspark_config(), backbone())
    assert "markov_head.markov_w1.weight" in shown["tensors"][1]
    assert shown["architecture"][0] == "error"


@pytest.mark.parametrize(
    ("method", "k", "code"), [("dspark", 15, "method"), (None, 16, "draft-tokens")]
)
def test_how_it_is_to_be_run(tmp_path: Path, method: Method | None, k: int, code: str) -> None:
    assert found(tmp_path, dflash_config(), backbone(), method, k)[code][0] == "error"


def big(tmp_path: Path, config: dict[str, Any]) -> dict[str, str]:
    """Code to level, against a target of the published sizes."""
    tensors = backbone(6656, 5)
    if "markov_rank" in config:
        tensors["markov_head.markov_w1.weight"] = (202048, 8)
        tensors["markov_head.markov_w2.weight"] = (202048, 8)
    drafter = write_hf(tmp_path / "drafter", config, tensors)
    against = target(tmp_path / "target", hidden=6656, layers=52, vocab=202048)
    return {finding.code: finding.level for finding in lint(drafter, against)}


def test_the_published_values(tmp_path: Path) -> None:
    assert big(tmp_path / "a", dspark_config(**BIG)) == {"sglang-layers": "info"}
    assert big(tmp_path / "b", dflash_config(**BIG)) == {"target-layers-nested": "info"}


def test_the_published_dspark_head_does_not_draft_from_the_anchor(tmp_path: Path) -> None:
    config = dspark_config(**BIG, sample_from_anchor=True)
    assert big(tmp_path, config)["sample-from-anchor"] == "error"


@pytest.mark.parametrize(
    ("key", "value", "code", "level"),
    [
        ("target_layer_ids", [2, 14, 26, 38, 50], "layer-convention", "error"),
        ("target_layer_ids", [3, 13, 25, 37, 49], "target-layers", "warning"),
        ("sliding_window", 4096, "sliding-window", "error"),
        ("mask_token_id", 201817, "mask-token", "error"),
    ],
)
def test_published_training(tmp_path: Path, key: str, value: object, code: str, level: str) -> None:
    assert big(tmp_path, dflash_config(**{**BIG, key: value}))[code] == level


def test_speculators_format_counts_inputs(tmp_path: Path) -> None:
    layer = {
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "vocab_size": VOCAB,
        "sliding_window": 32,
        "layer_types": ["sliding_attention"] * 2,
        "model_type": "qwen3",
        "use_sliding_window": True,
    }
    config = {
        "architectures": ["DSparkDraftModel"],
        "speculators_model_type": "dspark",
        "transformer_layer_config": layer,
        "aux_hidden_state_layer_ids": [1, 3, 5],
        "block_size": 16,
        "mask_token_id": 4,
        "markov_rank": 8,
    }
    assert found(tmp_path / "a", config, dspark_tensors()) == {}
    config["aux_hidden_state_layer_ids"] = [0, 3, 5]
    text = found(tmp_path / "b", config, dspark_tensors())["target-layers"][1]
    assert "[0] are outside 1 to 5 (inputs of layers" in text


def test_gguf_counts_inputs_and_shows_its_head(tmp_path: Path) -> None:
    against = target(tmp_path / "target")
    dspark = write_gguf(tmp_path / "dspark.gguf", markov=True, layer_ids=[1, 3, 5])
    codes = [finding.code for finding in lint(dspark, against, method="dspark", draft_tokens=16)]
    assert codes == ["draft-tokens"]
    (wrong,) = lint(dspark, against, method="dflash")
    assert (wrong.code, wrong.level) == ("method", "error")
    outputs = write_gguf(tmp_path / "outputs.gguf", markov=False, layer_ids=[0, 2, 4])
    assert [finding.code for finding in lint(outputs, against)] == ["target-layers"]


def test_gguf_headers(tmp_path: Path) -> None:
    headers = read_headers(
        write_gguf(tmp_path / "drafter.gguf", markov=True, layer_ids=[1, 3, 5], vocab=3000)
    )
    assert headers.tokens == 3000
    assert headers.config["dflash.target_layers"] == [1, 3, 5]
    assert headers.config["dflash.sample_from_anchor"] is False
    assert headers.tensors["markov_w1.weight"] == (3000, 8)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.gguf", b"GGUF\x03\x00", "damaged or cut off"),
        ("x.gguf", b"GGUF" + b"\x09\x00\x00\x00" + bytes(16), "version 9"),
        ("x.bin", b"PK\x03\x04", "neither a folder"),
    ],
)
def test_what_is_no_checkpoint(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_headers(tmp_path / name)


def test_a_cut_off_gguf(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", markov=False, layer_ids=[1]).read_bytes()
    part = tmp_path / "part.gguf"
    for length in range(8, 3000, 97):
        part.write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged or cut off"):
            read_headers(part)


def test_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json: cannot be read"):
        read_headers(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"has no \.safetensors file"):
        read_headers(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 32)
    with pytest.raises(InputError, match="is not a safetensors file"):
        read_headers(tmp_path)
