"""museorch patch, on the tree of the launch image."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backends.errors import EngineError, InputError, MuseorchError, PatchError
from orchestrator.commands.patch import app
from tests.orchestrator.patching.launch_image import EDITED, packages
from tests.orchestrator.patching.tree import hashes


def run(*words: str) -> Result:
    """Raises what the one error boundary of the command line would print."""
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, MuseorchError):
        raise result.exception
    return result


def test_apply_status_verify_revert(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    before = hashes(folder)
    here = ("--packages", str(folder))

    shown = run("apply", "--for", "dflash", "--device", "cuda", *here).stdout
    assert shown.count("applied  ") == len(EDITED)
    (row,) = json.loads(run("status", "--json", *here).stdout)
    assert row["version"] == "0.1.dev19075"
    assert {patch["id"] for patch in row["patches"] if patch["state"] == "applied"} == EDITED
    assert run("verify", *here).exit_code == 0

    registry = folder / "vllm/model_executor/models/registry.py"
    text = registry.read_text()
    registry.write_text(text + "\n")
    result = run("verify", *here)
    assert result.exit_code == 1
    assert "vllm-registry-alias: vllm/model_executor/models/registry.py is not as" in result.stdout
    registry.write_text(text)

    assert "reverted  vllm-registry-alias" in run("revert", *here).stdout
    assert hashes(folder) == before


def test_apply_one_by_name(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    result = run("apply", "vllm-registry-alias", "--packages", str(folder), "--json")
    (applied,) = json.loads(result.stdout)
    assert applied["id"] == "vllm-registry-alias"
    assert applied["files"][0]["before"] != applied["files"][0]["after"]


def test_status_names_an_engine_that_no_patch_helps(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    (folder / "vllm/model_executor/models/muse_glimmer.py").unlink()
    assert "does not know Muse Glimmer" in run("status", "--packages", str(folder)).stdout
    with pytest.raises(PatchError, match=r"The first release that does is 0\.28\.0"):
        run("apply", "vllm-registry-alias", "--packages", str(folder))


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("apply", "--for", "dflash"), InputError, "its device is not known"),
        (("apply", "nothing"), InputError, "no patch 'nothing' for vllm.*Known: vllm-v1-wrapper"),
        (("revert", "vllm-registry-alias"), InputError, "is not applied.*Applied: none"),
    ],
)
def test_wrong_words(
    tmp_path: Path, words: tuple[str, ...], kind: type[MuseorchError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        run(*words, "--packages", str(packages(tmp_path)))


def test_wrong_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path))
    with pytest.raises(InputError, match="no engine to patch here"):
        run("status")
    with pytest.raises(InputError, match="no engine named vllm here"):
        run("revert", "--engine", "vllm")
    with pytest.raises(InputError, match="museorch patches vllm and sglang"):
        run("status", "llamacpp")
    with pytest.raises(InputError, match="no such folder"):
        run("verify", "--packages", str(tmp_path / "nowhere"))
    with pytest.raises(PatchError, match="has no vllm or sglang in it"):
        run("verify", "--packages", str(tmp_path))
    with pytest.raises(EngineError, match="has no vllm"):
        run("status", "vllm", "--python", sys.executable)


def test_dockerfile() -> None:
    text = run("dockerfile", "--base", "image:tag", "--for", "dspark", "--version", "0.33.0").stdout
    assert "FROM image:tag\n" in text
    assert "#   vllm-dspark-wrapper: " in text
    assert "vllm-registry-alias" not in text
    assert '\\"num_speculative_tokens\\": 16' in text
    assert "--per-request-spec-decode-metrics" not in text
