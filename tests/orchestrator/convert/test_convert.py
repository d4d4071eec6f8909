"""Conversion of the bundled checkpoints by the real converter and quantiser."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.errors import EngineError, InputError
from orchestrator.convert import flow, manifest, step
from orchestrator.convert.checkpoints import Checkpoint, checkpoints
from orchestrator.convert.tools import Tools, tools
from orchestrator.gguf.contents import read
from orchestrator.inputs import hub
from orchestrator.inputs.hub import NotFetched
from orchestrator.inputs.models import RECIPES
from tests.orchestrator.test_run import MUSEORCH

TINY = RECIPES / "tiny-muse" / "model"
real = [pytest.mark.engine("llamacpp"), pytest.mark.engine("vllm")]


def silent(what: str, done: int, total: int) -> None:
    del what, done, total


def made(found: tuple[Checkpoint, ...], quant: str, out: Path) -> list[flow.Made]:
    wanted = flow.quantisations(quant)
    return list(flow.convert(found, wanted, out, tools(), threads=1, watch=silent))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    found = checkpoints("tiny-muse", ["dspark"])
    assert [item.kept for item in made(found, "bf16,q8_0,q4_k_m", folder)] == [False] * 6
    return folder


class TestReal:
    pytestmark = real

    def test_bf16_equals_the_bundled_files(self, out: Path) -> None:
        """Those were made by the converter without chunks, so chunks change no byte."""
        for name, bundled in (("tiny-muse", "target"), ("tiny-muse-dspark", "dspark")):
            new = (out / f"{name}-BF16.gguf").read_bytes()
            assert new == (TINY / "gguf" / f"{bundled}-bf16.gguf").read_bytes()

    def test_the_markov_head_falls_back_where_rows_are_short(self, out: Path) -> None:
        """Its rows are 32 wide, and a K-quant's blocks are 256."""
        found = read(out / "tiny-muse-dspark-Q4_K_M.gguf").tensors
        assert found["markov_w1.weight"].type == "Q5_0"
        assert found["blk.0.ffn_up.weight"].type == "Q4_K"

    def test_nothing_but_files_and_manifests_is_left(self, out: Path) -> None:
        stems = [
            f"tiny-muse{d}-{q}.gguf" for d in ("", "-dspark") for q in ("BF16", "Q8_0", "Q4_K_M")
        ]
        assert names(out) == {*stems, *(f"{stem}.json" for stem in stems)}

    def test_the_manifest_tells_all(self, out: Path) -> None:
        path = out / "tiny-muse-dspark-Q8_0.gguf"
        found = manifest.read(path)
        assert found is not None
        assert found["bytes"] == path.stat().st_size
        assert found["sha256"] == manifest.sha256(path)
        weights = TINY / "dspark" / "model.safetensors"
        assert found["source_files"] == {"model.safetensors": manifest.sha256(weights)}
        tokenizer = manifest.sha256(TINY / "target" / "tokenizer.json")
        assert found["origin"]["target"]["tokenizer.json"] == tokenizer
        assert found["origin"]["quantisation"] == "Q8_0"
        assert "llama-cpp-python" in found["origin"]["converter"]
        assert found["made"]["peak_rss_bytes"] > 1_000_000

    def test_finished_files_are_kept_and_damaged_ones_made_again(self, out: Path) -> None:
        path = out / "tiny-muse-Q8_0.gguf"
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        again = {
            item.path: item.kept for item in made(checkpoints("tiny-muse", []), "bf16,q8_0", out)
        }
        assert again == {out / "tiny-muse-BF16.gguf": True, path: False}
        assert path.read_bytes() == good

    def test_bf16_goes_unless_it_was_asked_for(self, tmp_path: Path) -> None:
        made(checkpoints("tiny-muse", []), "q6_k", tmp_path)
        assert names(tmp_path) == {"tiny-muse-Q6_K.gguf", "tiny-muse-Q6_K.gguf.json"}
        (kept,) = made(checkpoints("tiny-muse", []), "q6_k", tmp_path)
        assert kept.kept

    def test_bf16_that_was_asked_for_once_stays(self, out: Path) -> None:
        made(checkpoints("tiny-muse", []), "q5_k_m", out)
        assert (out / "tiny-muse-BF16.gguf").exists()
        for suffix in ("", ".json"):
            (out / f"tiny-muse-Q5_K_M.gguf{suffix}").unlink()

    def test_a_file_of_someone_elses_is_not_touched(self, tmp_path: Path) -> None:
        other = tmp_path / "tiny-muse-Q8_0.gguf"
        other.write_bytes(b"mine")
        with pytest.raises(InputError, match="museorch did not make it"):
            made(checkpoints("tiny-muse", []), "q8_0", tmp_path)
        assert other.read_bytes() == b"mine"

    def test_what_fails_leaves_its_log_and_no_file(self, tmp_path: Path) -> None:
        folder = tmp_path / "broken"
        shutil.copytree(TINY / "target", folder)
        (folder / "tokenizer.json").write_text("{}")
        with pytest.raises(EngineError, match=r"broken-BF16\.gguf: failed with status 1: KeyError"):
            made(checkpoints(str(folder), []), "bf16", tmp_path / "out")
        assert names(tmp_path / "out") == {"broken-BF16.gguf.log"}

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_a_stop_leaves_no_file_and_no_program(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        argv = [*MUSEORCH, "convert", "tiny-muse", "--quant", "BF16", "--out", str(tmp_path)]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while (line := process.stderr.readline()) and "BF16" not in line:
            pass
        process.send_signal(number)
        rest = process.stderr.read()
        process.stderr.close()
        assert process.wait(30) == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -9)
        assert "Traceback" not in rest
        assert not (tmp_path / "tiny-muse-BF16.gguf").exists()
        deadline = time.monotonic() + 20
        while running(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not running(tmp_path)
        if number != signal.SIGKILL:
            assert names(tmp_path) == set()


def running(folder: Path) -> list[str]:
    """Command lines that name the folder, of any process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(str(folder) in word for word in words):
            found.append(" ".join(words))
    return found


def test_names_folders_and_the_hub() -> None:
    target, drafter = checkpoints("tiny-muse", ["dflash"])
    assert (target.name, drafter.name) == ("tiny-muse", "tiny-muse-dflash")
    assert (target.target, drafter.target) == (None, target.folder)
    target, drafter = checkpoints(str(TINY / "target"), [str(TINY / "dspark")])
    assert (target.name, drafter.name) == ("target", "dspark")
    with pytest.raises(NotFetched, match="hf download nobody/nothing"):
        checkpoints("nobody/nothing", [])
    with pytest.raises(InputError, match='Did you mean "tiny-muse"'):
        checkpoints("tinymuse", [])
    with pytest.raises(InputError, match='Did you mean "dflash"'):
        checkpoints("tiny-muse", ["dflesh"])
    with pytest.raises(InputError, match="not MuseGlimmerForConditionalGeneration"):
        checkpoints(str(TINY / "dflash"), [])
    with pytest.raises(InputError, match='two checkpoints are called "dflash"'):
        checkpoints("tiny-muse", [str(TINY / "dflash"), str(TINY / "dflash")])


def in_two_files(folder: Path) -> dict[str, str]:
    """The target's tensors, one of them in a file of its own. Returns the index's map."""
    shutil.copytree(TINY / "target", folder)
    whole = folder / "model.safetensors"
    content = whole.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    moved = {"lm_head.weight": header.pop("lm_head.weight")}
    files = [folder / f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for file, part in zip(files, (header, moved), strict=True):
        text = json.dumps(part).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    whole.unlink()
    names = dict.fromkeys(header, files[0].name) | {"lm_head.weight": files[1].name}
    (folder / hub.INDEX).write_text(json.dumps({"weight_map": names}))
    return names


def cut(folder: Path) -> None:
    file = folder / "model-00002-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:100_000])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model-00002-of-00002.safetensors").unlink(), "00002.* is missing"),
        (lambda f: (f / hub.INDEX).unlink(), r"index\.json is missing"),
        (lambda f: (f / hub.INDEX).write_text("{"), "a readable model.*index.json is missing"),
        (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
        (cut, r"00002\.safetensors: is cut off"),
        (lambda f: (f / "model.safetensors").mkdir(), "cannot be read"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "header is damaged"),
    ],
)
def test_an_incomplete_checkpoint_is_refused_before_anything_runs(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = tmp_path / "mine"
    in_two_files(folder)
    assert checkpoints(str(folder), [])
    damage(folder)
    with pytest.raises(InputError, match=message):
        checkpoints(str(folder), [])


def test_an_index_that_names_a_tensor_nobody_has_is_refused(tmp_path: Path) -> None:
    names = in_two_files(tmp_path / "mine") | {"nothing": "model-00001-of-00002.safetensors"}
    (tmp_path / "mine" / hub.INDEX).write_text(json.dumps({"weight_map": names}))
    with pytest.raises(InputError, match="names nothing, which no file has"):
        checkpoints(str(tmp_path / "mine"), [])


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    nowhere = Tools(Path("no-python"), Path("no-source"), Path("no-quantiser"), "none")
    (tmp_path / "folder" / ".convert.lock").mkdir(parents=True)
    (tmp_path / "file").touch()
    found = checkpoints("tiny-muse", [])
    for name in ("folder", "file"):
        with pytest.raises(InputError, match=rf"/{name}.*Name a folder with --out"):
            list(flow.convert(found, ("Q8_0",), tmp_path / name, nowhere, threads=1, watch=silent))


def test_a_full_disk_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs say `262144 requested and 68800 written` and `iostream error`."""
    usage: Any = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    argv = (sys.executable, "-c", "raise SystemExit('iostream error')")
    with pytest.raises(EngineError, match="x: failed with status 1: no space is left"):
        step.run(
            argv,
            title="x",
            out=tmp_path / "x",
            log=tmp_path / "log",
            env={},
            on_bytes=lambda _: None,
        )


def test_the_vision_tower_does_not_count() -> None:
    (target,) = checkpoints("tiny-muse", [])
    size = (TINY / "gguf" / "target-bf16.gguf").stat().st_size
    assert target.text_bytes < size < target.text_bytes * 1.05


def test_an_unknown_quantisation_is_refused() -> None:
    assert flow.quantisations("q4_k_m, BF16,Q4_K_M") == ("Q4_K_M", "BF16")
    with pytest.raises(InputError, match=r'no quantisation "q9".*Known: F32, BF16'):
        flow.quantisations("q9")


def test_disk_is_checked_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 30))
    nowhere = Tools(Path("no-python"), Path("no-source"), Path("no-quantiser"), "none")
    with pytest.raises(InputError, match=r"takes up to .* 1\.1 GB are free"):
        list(
            flow.convert(
                checkpoints("tiny-muse", []), ("Q8_0",), tmp_path, nowhere, threads=1, watch=silent
            )
        )
    assert names(tmp_path) == set()


def test_without_engines_the_command_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path))
    with pytest.raises(EngineError, match="Run: museorch engines install llamacpp"):
        tools()


def test_a_manifest_without_its_file_is_not_finished(tmp_path: Path) -> None:
    part, output = tmp_path / ".x.part", tmp_path / "x.gguf"
    part.write_bytes(b"abc")
    origin = {"quantisation": "BF16"}
    manifest.finish(part, output, {"origin": origin})
    assert manifest.finished(output, origin)
    assert manifest.finished(output, {"quantisation": "Q8_0"}) is None
    output.unlink()
    assert manifest.finished(output, origin) is None
    assert json.loads(manifest.path_of(output).read_text())["bytes"] == 3
