"""What lies in the hub's cache, and what comes there, from a hub on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import EngineError
from orchestrator.inputs import hub
from orchestrator.inputs.hub import Wanted
from tests.fake_hub import COMMIT, Hub, serving

WEIGHTS = os.urandom(21 << 20)
"""More than one chunk of a download, which is 10 MiB."""
FILES = {
    "config.json": b"{}",
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b'{"a": 1}',
    "picture.png": b"not fetched",
}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    repositories = {"org/model": FILES, "org/closed": FILES}
    with serving(repositories, gated=frozenset({"org/closed"})) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found


def test_a_checkpoint_comes_once_and_a_dropped_connection_goes_on(served: Hub) -> None:
    served.drop["model.safetensors"] = 11 << 20
    wanted = Wanted("org/model")
    assert hub.cached("org/model") is None
    assert hub.remaining(wanted) == len(WEIGHTS) + 2 + 8
    hub.fetch(wanted, lambda _: None)
    found = hub.cached("org/model")
    assert found is not None
    assert (found / "model.safetensors").read_bytes() == WEIGHTS
    assert not (found / "picture.png").exists()
    ranges = [asked for name, asked in served.gets if name == "model.safetensors"]
    assert len(ranges) == 2
    assert ranges[0] is None
    assert int(str(ranges[1]).removeprefix("bytes=").rstrip("-")) >= 10 << 20
    assert hub.remaining(wanted) == 0


def test_an_interrupted_download_keeps_whole_files_and_is_not_taken_for_a_checkpoint(
    served: Hub,
) -> None:
    hub.fetch(Wanted("org/model", "config.json"), lambda _: None)
    hub.fetch(Wanted("org/model", "tokenizer.json"), lambda _: None)
    assert hub.cached("org/model", "config.json") is not None
    assert hub.cached("org/model") is None
    assert hub.remaining(Wanted("org/model")) == len(WEIGHTS)

    def stop(come: int) -> None:
        if come > 0:
            raise KeyboardInterrupt

    served.stall["model.safetensors"] = 11 << 20
    with pytest.raises(KeyboardInterrupt):
        hub.fetch(Wanted("org/model"), stop)
    assert hub.cached("org/model") is None
    assert not list(hub.cache().rglob("*.incomplete")), "nothing would ever finish them"
    served.stall.clear()
    hub.fetch(Wanted("org/model"), lambda _: None)
    assert [name for name, _ in served.gets].count("config.json") == 1
    assert hub.cached("org/model") is not None


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted("org/closed"), "Accept its terms on the hub's page of org/closed"),
        (Wanted("org/none"), "has no such repository"),
        (Wanted("org/model", "none.gguf"), "has no such files"),
    ],
)
def test_what_the_hub_does_not_give(served: Hub, wanted: Wanted, message: str) -> None:
    del served
    with pytest.raises(EngineError) as error:
        hub.remaining(wanted)
    assert message in error.value.message


def test_a_hub_that_is_away(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    del served
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EngineError) as error:
        hub.remaining(Wanted("org/model"))
    assert "does not answer: ConnectError" in error.value.message
    assert "hf download org/model" in error.value.message
    assert str(hub.cache() / "models--org--model") in error.value.message


def write_snapshot(files: dict[str, str]) -> None:
    folder = hub.cache() / "models--org--model"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    for name, text in files.items():
        (snapshot / name).write_text(text, encoding="utf-8")


INDEX = json.dumps({"weight_map": {"a": "m-1-of-2.safetensors", "b": "m-2-of-2.safetensors"}})


ONE, BOTH = ["m-1-of-2.safetensors"], ["m-1-of-2.safetensors", "m-2-of-2.safetensors"]


@pytest.mark.parametrize(
    ("index", "weights", "whole"),
    [
        (None, ["model.safetensors"], True),
        (None, [], False),
        (None, ONE, False),
        (INDEX, ONE, False),
        (INDEX, BOTH, True),
        ("{", BOTH, False),
        ('{"weight_map": {"a": []}}', BOTH, False),
        ("[]", BOTH, False),
    ],
)
def test_a_snapshot_counts_when_all_its_shards_are_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    index: str | None,
    weights: list[str],
    whole: bool,
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    files = dict.fromkeys(weights, "") | ({} if index is None else {hub.INDEX: index})
    write_snapshot(files | {"config.json": "{}"})
    assert (hub.cached("org/model") is not None) is whole
    (hub.cache() / "models--org--model" / "snapshots" / COMMIT / "config.json").unlink()
    assert hub.cached("org/model") is None
    (hub.cache() / "models--org--model" / "refs" / "main").write_bytes(b"\xff")
    assert hub.cached("org/model") is None
