from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from orchestrator.inputs.models import RECIPES, load_model


def test_paths_of_a_model_file_are_beside_it_wherever_the_engine_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    found["target"]["artefacts"] = [{"format": "gguf", "quantisation": "q8_0", "path": "x.gguf"}]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(found), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    loaded = load_model("mine.yaml", Path())
    (artefact,) = loaded.model.target.artefacts
    assert loaded.weights(loaded.model.target, artefact).path == str(tmp_path / "x.gguf")
