from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from backends.base import Overlay
from backends.errors import InputError
from orchestrator.serving.overlay import changes, materialise


def checkpoint(tmp_path: Path, config: Mapping[str, object]) -> Path:
    folder = tmp_path / "drafter"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def overlay(folder: Path) -> Overlay:
    return Overlay(
        str(folder),
        "the V1 runner reads dflash_config",
        "{drafter-overlay}",
        aliases={"dflash_config.target_layer_ids": "target_layer_ids"},
        changes={"dflash_config.mask_token_id": 4},
    )


def test_sets_keys_and_links_the_rest(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"target_layer_ids": [0, 1], "dflash_config": {"causal": False}})
    made = materialise(overlay(folder), tmp_path / "overlays")
    assert json.loads((made / "config.json").read_text()) == {
        "target_layer_ids": [0, 1],
        "dflash_config": {"causal": False, "target_layer_ids": [0, 1], "mask_token_id": 4},
    }
    assert (made / "model.safetensors").is_symlink()
    assert (made / "model.safetensors").read_bytes() == b"weights"
    assert "mask_token_id" not in (folder / "config.json").read_text()


def test_is_made_once_and_follows_the_checkpoint(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"target_layer_ids": [0]})
    parent = tmp_path / "overlays"
    first = materialise(overlay(folder), parent)
    assert materialise(overlay(folder), parent) == first
    (folder / "tokenizer.json").write_text("{}")
    second = materialise(overlay(folder), parent)
    assert (second / "tokenizer.json").exists()
    assert {entry.name for entry in parent.iterdir()} == {first.name, second.name}


def test_an_existing_key_is_kept(tmp_path: Path) -> None:
    config = {
        "target_layer_ids": [7],
        "dflash_config": {"target_layer_ids": [1], "mask_token_id": 3},
    }
    found = changes(overlay(checkpoint(tmp_path, config)))
    assert [(c.key, c.value, c.was) for c in found] == [("dflash_config.mask_token_id", 4, 3)]


def test_says_which_key_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither dflash_config.target_layer_ids nor target_la"):
        changes(overlay(checkpoint(tmp_path, {})))


def test_unreadable_config(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json: cannot be read"):
        changes(overlay(tmp_path / "nowhere"))
    folder = checkpoint(tmp_path, {})
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        changes(overlay(folder))


def test_a_relative_parent_gives_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "drafter"
    source.mkdir()
    (source / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    folder = materialise(Overlay(str(source), "why", "{x}", changes={"a": 1}), Path("overlays"))
    assert folder.is_absolute()
    assert (folder / "config.json").is_file()
