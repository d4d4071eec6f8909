from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import MuseorchError
from orchestrator.report import libraries
from orchestrator.report.libraries import plot_libraries


def test_the_script_is_kept_and_taken_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path))
    script = plot_libraries()
    assert "vegaEmbed" in script
    assert "</script" not in script
    (kept,) = (tmp_path / "plots").iterdir()
    kept.write_text("// kept", encoding="utf-8")
    assert plot_libraries() == "// kept"


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "file"))
    assert "vegaEmbed" in plot_libraries()


def test_without_the_package_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "PACKAGE", "no-such-package-as-this")
    with pytest.raises(MuseorchError, match=r"needs no-such-package.*--format md"):
        plot_libraries()
