"""Hand-made faults are refused with their reason; what is right is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from numpy.typing import NDArray

from backends.base import Finding
from backends.errors import InputError
from orchestrator.gguf import known
from orchestrator.gguf.contents import read, vocabulary
from orchestrator.gguf.show import summary
from orchestrator.gguf.verify import verify
from tests.orchestrator.gguf.edited import DFLASH, DSPARK, TARGET, TINY, edited
from tests.orchestrator.test_run import MUSEORCH


def errors(found: tuple[Finding, ...]) -> dict[str, str]:
    return {finding.code: finding.text for finding in found if finding.level == "error"}


@pytest.mark.parametrize("name", ["target", "dflash", "dspark"])
@pytest.mark.parametrize("target", [TARGET, TINY / "target"], ids=["gguf", "hf"])
def test_the_bundled_files_are_right(name: str, target: Path) -> None:
    beside = None if name == "target" else target
    found = verify(TINY / "gguf" / f"{name}-bf16.gguf", source=TINY / name, target=beside)
    assert not errors(found)


def test_a_copy_by_the_gguf_package_is_right(tmp_path: Path) -> None:
    """So what the faults below are refused for is the fault."""
    copy = edited(DSPARK, tmp_path / "copy.gguf")
    assert not errors(verify(copy, source=TINY / "dspark", target=TARGET))


def test_target_layers_counted_as_outputs(tmp_path: Path) -> None:
    bad = edited(DFLASH, tmp_path / "bad.gguf", values={"dflash.target_layers": [0, 2]})
    found = errors(verify(bad, source=TINY / "dflash", target=TARGET))
    assert "[0] are outside 1 to 3 (inputs of layers" in found["target-layers"]
    assert found["source-metadata"] == "target_layers is [0, 2]; the source says [1, 3]."


def test_a_drafter_that_reads_the_last_layer(tmp_path: Path) -> None:
    bad = edited(DFLASH, tmp_path / "bad.gguf", values={"dflash.target_layers": [1, 4]})
    assert "[4] are outside 1 to 3" in errors(verify(bad, target=TARGET))["target-layers"]


def test_another_vocabulary(tmp_path: Path) -> None:
    tokens = vocabulary(DSPARK)
    kinds = GGUFReader(DSPARK).fields["tokenizer.ggml.token_type"].contents()
    short = {"tokenizer.ggml.tokens": tokens[:-24], "tokenizer.ggml.token_type": kinds[:-24]}
    bad = edited(DSPARK, tmp_path / "bad.gguf", values=short)
    found = errors(verify(bad, target=TARGET))
    assert found["vocabulary"].endswith("is for 1024 tokens; the vocabulary has 1000.")
    assert "1000 tokens, the target 1024" in found["vocab-size"]


def test_a_target_with_another_vocabulary(tmp_path: Path) -> None:
    tokens = vocabulary(TARGET)[:-24]
    bad = edited(TARGET, tmp_path / "bad.gguf", values={"tokenizer.ggml.tokens": tokens})
    text = errors(verify(bad))["vocabulary"]
    assert text == "token_embd.weight is for 1024 tokens; the vocabulary has 1000."


@pytest.mark.parametrize(
    "missing", [["markov_w1.weight", "markov_w2.weight"], ["markov_w2.weight"]]
)
def test_missing_markov_tensors(tmp_path: Path, missing: list[str]) -> None:
    bad = edited(DSPARK, tmp_path / "bad.gguf", without=missing)
    assert " and ".join(missing) in errors(verify(bad))["markov"]


@pytest.mark.parametrize("source", [TARGET, DFLASH])
def test_another_architecture(tmp_path: Path, source: Path) -> None:
    bad = edited(source, tmp_path / "bad.gguf", architecture="llama")
    assert errors(verify(bad))["architecture"].startswith("The architecture is llama;")


def test_a_target_in_a_drafters_place() -> None:
    assert set(errors(verify(TARGET, target=TARGET))) == {"role"}
    assert set(errors(verify(DFLASH, target=DSPARK))) == {"target-architecture"}


def test_a_target_without_a_layer(tmp_path: Path) -> None:
    bad = edited(TARGET, tmp_path / "bad.gguf", without=["blk.3.attn_v.weight"])
    assert "blk.3.attn_v.weight" in errors(verify(bad))["tensors"]


def test_cut_off_in_the_weights(tmp_path: Path) -> None:
    whole = DSPARK.read_bytes()
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(whole[:-100])
    expected = f"{len(whole) - 100:,} bytes; its last tensor ends at {len(whole):,}"
    assert expected in errors(verify(bad, target=TARGET))["truncated"]


@pytest.mark.parametrize("length", [0, 3, 30, 5000])
def test_cut_off_in_the_header(tmp_path: Path, length: int) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(DSPARK.read_bytes()[:length])
    with pytest.raises(InputError, match=r"damaged or cut off|nor a GGUF file"):
        verify(bad)


def test_two_tokens_exchanged(tmp_path: Path) -> None:
    tokens = vocabulary(DFLASH)
    tokens[700], tokens[701] = tokens[701], tokens[700]
    bad = edited(DFLASH, tmp_path / "bad.gguf", values={"tokenizer.ggml.tokens": tokens})
    for target in (TARGET, TINY / "target"):
        text = errors(verify(bad, target=target))["tokenizer"]
        assert text.startswith(f"Token 700 is {tokens[700]!r} in the drafter")


def test_another_end_token(tmp_path: Path) -> None:
    bad = edited(DFLASH, tmp_path / "bad.gguf", values={"tokenizer.ggml.eos_token_id": 8})
    expected = "The eos token is 8 in the drafter and 1 in the target."
    assert errors(verify(bad, target=TARGET))["tokenizer"] == expected


def test_a_flipped_anchor_is_not_the_sources(tmp_path: Path) -> None:
    bad = edited(DSPARK, tmp_path / "bad.gguf", values={"dflash.sample_from_anchor": True})
    found = errors(verify(bad, source=TINY / "dspark"))
    assert found["source-metadata"] == "sample_from_anchor is True; the source says False."


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 3),
        ("feed_forward_length", 256),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 32),
        ("attention.sliding_window", 512),
        ("attention.sliding_window_pattern", [True, True, False, True]),
        ("attention.layer_norm_rms_epsilon", 0.5),
        ("context_length", 2048),
        ("final_logit_softcapping", 30.0),
        ("logit_scale", 0.5),
        ("rope.freq_base", 5e5),
    ],
)
def test_metadata_that_is_not_the_sources(tmp_path: Path, key: str, value: object) -> None:
    bad = edited(TARGET, tmp_path / "bad.gguf", values={f"muse-glimmer.{key}": value})
    text = errors(verify(bad, source=TINY / "target"))["source-metadata"]
    name = "the sliding pattern" if key.endswith("pattern") else key
    assert text.startswith(f"{name} is {value}; the source says ")


def test_query_norms_of_another_scale(tmp_path: Path) -> None:
    """No tensor of the source has them: the converter makes them of a number in the config."""
    bad = edited(
        TARGET, tmp_path / "bad.gguf", tensors={"blk.0.attn_q_norm.weight": lambda one: one * 2}
    )
    text = errors(verify(bad, source=TINY / "target"))["source-values"]
    assert "blk.0.attn_q_norm.weight is not " in text


def test_rows_of_one_tensor_exchanged(tmp_path: Path) -> None:
    def rolled(stored: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.roll(stored, 1, axis=0)

    bad = edited(DSPARK, tmp_path / "bad.gguf", tensors={"blk.1.ffn_up.weight": rolled})
    text = errors(verify(bad, source=TINY / "dspark"))["source-values"]
    assert text.startswith("1 of 27 tensors are not the source's: blk.1.ffn_up.weight (BF16)")


def test_q_rows_left_in_the_layout_of_transformers(tmp_path: Path) -> None:
    """The converter interleaves them; not to do so makes a model that babbles."""

    def halves(stored: NDArray[np.uint8]) -> NDArray[np.uint8]:
        heads, width = 4, stored.shape[0] // 4
        pairs = stored.reshape(heads, width // 2, 2, -1)
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(stored.shape)

    bad = edited(TARGET, tmp_path / "bad.gguf", tensors={"blk.0.attn_q.weight": halves})
    assert "blk.0.attn_q.weight" in errors(verify(bad, source=TINY / "target"))["source-values"]


def test_another_source() -> None:
    found = errors(verify(DFLASH, source=TINY / "dspark"))
    assert found["source-metadata"] == "the family is dflash; the source says dspark."
    assert "tensors are not the source's" in found["source-values"]


def test_a_source_that_is_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "dflash"
    shutil.copytree(TINY / "dflash", folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(InputError, match=r"model\.safetensors: is cut off"):
        verify(DFLASH, source=folder)


def test_a_published_file_is_known_by_its_size(tmp_path: Path) -> None:
    """Grown to that size without taking the room: the hole at the end is sparse."""
    path = tmp_path / "any-name.gguf"
    shutil.copyfile(DFLASH, path)
    size = next(size for size, file in known.KNOWN.items() if file.old_name.startswith("dflash"))
    with path.open("r+b") as file:
        file.truncate(size)
    (finding,) = [found for found in verify(path) if found.code == "published"]
    assert "dflash-Muse-Glimmer-30B-Q4_K_M.gguf, before: dflash-kquant.gguf" in finding.text
    told = summary(read(path))["published_as"]
    assert told["old_name"] == "dflash-kquant.gguf"
    assert told["sha256"] is None


@pytest.mark.parametrize(("length", "status"), [(None, 0), (-100, 1), (5000, 2)])
def test_the_exit_status_tells(tmp_path: Path, length: int | None, status: int) -> None:
    path = tmp_path / "any.gguf"
    path.write_bytes(DFLASH.read_bytes()[:length])
    argv = [*MUSEORCH, "gguf", "verify", str(path), "--target", str(TARGET)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
