from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.llamacpp.convert import SCRIPT, converter, quantiser
from backends.llamacpp.convert_script import splits_as_gpt2
from orchestrator.inputs.models import RECIPES


def test_a_drafter_is_converted_with_its_targets_tokenizer() -> None:
    argv = converter(Path("p"), Path("s"), Path("drafter"), Path("o"), Path("target"))
    assert argv == ("p", "-P", str(SCRIPT), "s", "drafter", "o", "target")
    assert converter(Path("p"), Path("s"), Path("t"), Path("o"), None)[-1] == "o"


def test_the_quantiser_holds_a_bounded_part_of_a_tensor() -> None:
    argv = quantiser(Path("q"), Path("in"), Path("out"), "Q4_K_M", 2)
    assert argv == ("q", "--max-buffer-size", "256", "in", "out", "Q4_K_M", "2")


def test_the_bundled_tokenizer_splits_as_gpt2() -> None:
    assert splits_as_gpt2(RECIPES / "tiny-muse" / "model" / "target")


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}},
        {"model": {"type": "Unigram"}},
    ],
)
def test_other_tokenizers_are_not_taken_for_gpt2(tmp_path: Path, change: dict[str, object]) -> None:
    whole = RECIPES / "tiny-muse" / "model" / "target" / "tokenizer.json"
    found = json.loads(whole.read_text(encoding="utf-8")) | change
    (tmp_path / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
    assert not splits_as_gpt2(tmp_path)
