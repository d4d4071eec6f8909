"""Dummy weights on disk, beside what llama.cpp's own tools made of the trained model."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from gguf import GGUFReader
from tokenizers import Tokenizer

from backends.errors import EngineError, InputError
from orchestrator.dummy import gguf_file
from orchestrator.dummy.layout import layout
from orchestrator.dummy.mixture import types
from orchestrator.dummy.place import Role, dummy_weights, shape
from orchestrator.dummy.write import make
from orchestrator.environments.engines import resolve
from orchestrator.gguf.verify import verify
from orchestrator.inputs.expand import Arm
from orchestrator.inputs.models import RECIPES, LoadedModel, load_model

BUNDLED = RECIPES / "tiny-muse" / "model" / "gguf"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LoadedModel:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path))
    return load_model("tiny-muse", tmp_path)


def arm(model: LoadedModel, backend: str, quantisation: str, family: Role = "dspark") -> Arm:
    target = dummy_weights(model, "target", backend, quantisation)
    assert family != "target"
    head = model.drafter(family, dummy_weights(model, family, backend, quantisation))
    return Arm("a", backend, target, head, 15)


def contents(path: Path) -> tuple[dict[str, object], dict[str, tuple[int, ...]]]:
    reader = GGUFReader(path)
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith(("GGUF.", "general.", "tokenizer."))
    }
    return fields, {t.name: tuple(int(n) for n in t.shape) for t in reader.tensors}


@pytest.mark.parametrize("role", ["target", "dflash", "dspark"])
def test_a_file_has_the_keys_and_tensors_of_a_converted_checkpoint(
    tiny: LoadedModel, role: Role
) -> None:
    made = arm(tiny, "llamacpp", "bf16", "dspark" if role == "target" else role)
    make(tiny, [made], lambda _: None)
    head = made.drafter
    assert head is not None
    path = Path(made.target.path if role == "target" else head.weights.path)
    keys, tensors = contents(path)
    wanted, wanted_tensors = contents(BUNDLED / f"{role}-bf16.gguf")
    assert keys == wanted
    assert tensors == wanted_tensors
    beside = None if role == "target" else Path(made.target.path)
    assert [found for found in verify(path, target=beside) if found.level == "error"] == []


def test_what_is_there_is_kept_and_what_was_cut_off_is_made_again(tiny: LoadedModel) -> None:
    made = arm(tiny, "llamacpp", "q4_k_m")
    notes: list[str] = []
    make(tiny, [made], notes.append)
    make(tiny, [made], notes.append)
    assert len(notes) == 2, "one for the target, one for the drafter"
    path = Path(made.target.path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    make(tiny, [made], notes.append)
    assert path.read_bytes() == whole
    assert sorted(path.parent.iterdir()) == sorted(
        [path, Path(made.drafter.weights.path)] if made.drafter else []
    )


def test_a_full_disk_is_noticed_before_writing(
    tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_file, "ROOM", 1 << 60)
    made = arm(tiny, "llamacpp", "bf16")
    with pytest.raises(EngineError, match=r"dummy weights take .* GB are free.*MUSEORCH_HOME"):
        make(tiny, [made], lambda _: None)
    assert list(Path(made.target.path).parent.iterdir()) == []


def test_a_disk_that_fills_is_named_and_what_a_kill_left_goes(
    tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = arm(tiny, "llamacpp", "q8_0")
    path = Path(made.target.path)
    path.parent.mkdir()
    left = path.with_name(f".{path.name}.part")
    left.write_bytes(b"of a killed run")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(gguf_file, "_write", full)
        with pytest.raises(EngineError, match="cannot be written: No space left on device"):
            make(tiny, [made], lambda _: None)
    assert list(path.parent.iterdir()) == []
    make(tiny, [made], lambda _: None)
    assert path.exists()


def test_two_at_once_write_it_once(tiny: LoadedModel) -> None:
    made = arm(tiny, "llamacpp", "q8_0")
    said: list[str] = []
    threads = [threading.Thread(target=make, args=(tiny, [made], said.append)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert made.drafter is not None
    for path in (made.target.path, made.drafter.weights.path):
        assert len([line for line in said if line.endswith(f" GB: {path}")]) == 1


def test_a_folder_has_config_and_tokenizer_and_no_weights(tiny: LoadedModel) -> None:
    made = arm(tiny, "sglang", "bf16")
    make(tiny, [made], lambda _: None)
    folder = Path(made.target.path)
    assert json.loads((folder / "config.json").read_text("utf-8")) == shape(tiny, "target")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 1024
    assert tokenizer.encode("<1023> <7>").ids == [1023, 7]
    assert made.drafter is not None
    assert [f.name for f in Path(made.drafter.weights.path).iterdir()] == ["config.json"]


def test_another_shape_is_another_file(tiny: LoadedModel) -> None:
    before = dummy_weights(tiny, "dflash", "llamacpp", "bf16").path
    tokens = tiny.model.tokens.model_copy(update={"mask": 5})
    changed = tiny.model.model_copy(update={"tokens": tokens})
    other = LoadedModel(changed, tiny.document, tiny.base)
    assert dummy_weights(other, "dflash", "llamacpp", "bf16").path != before
    big = load_model("muse-glimmer-30b", Path())
    assert dummy_weights(big, "dflash", "llamacpp", "bf16").path != before


def test_a_quantisation_nobody_makes_is_refused(tiny: LoadedModel) -> None:
    with pytest.raises(InputError, match=r"no dummy weights in nvfp4 for vllm.*makes: bf16"):
        dummy_weights(tiny, "target", "vllm", "nvfp4")
    assert dummy_weights(tiny, "dspark", "vllm", "nvfp4").quantisation == "bf16"


@pytest.mark.engine("llamacpp")
@pytest.mark.parametrize("role", ["target", "dflash", "dspark"])
def test_types_are_those_llama_quantize_chooses(role: Role, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    tool = resolve("llamacpp").executable.with_name("llama-quantize")
    subprocess.run(
        [tool, BUNDLED / f"{role}-bf16.gguf", out, "Q4_K_M", "1"], check=True, capture_output=True
    )
    chosen = {t.name: t.tensor_type for t in GGUFReader(out).tensors}
    assert types(layout(load_model("tiny-muse", tmp_path), role), "q4_k_m") == chosen


def test_the_full_model_gets_more_bits_where_llama_quantize_gives_them(tmp_path: Path) -> None:
    big = layout(load_model("muse-glimmer-30b", tmp_path), "target")
    names = [name for name, kind in types(big, "q4_k_m").items() if kind.name == "Q6_K"]
    more = {int(name.split(".")[1]) for name in names if name.startswith("blk.")}
    assert "output.weight" in names
    assert more == {*range(6), *range(8, 45, 3), *range(45, 52)}
