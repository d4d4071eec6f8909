from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.up import top
from orchestrator.up.show import curl_to

URL = "http://127.0.0.1:8000"


def test_curl_goes_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert curl_to(URL) == f"curl {URL}"
    assert curl_to("http://[::1]:8000") == "curl 'http://[::1]:8000'", "brackets are a shell's"
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert curl_to(URL) == f"curl --noproxy '*' {URL}"
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    assert curl_to(URL) == f"curl {URL}"


def test_top_shows_something_on_a_terminal_that_cannot_redraw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path))
    monkeypatch.setattr(top, "PERIOD_S", 0.0)
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    top.watch(console, None)
    assert isinstance(console.file, io.StringIO)
    assert "No server is up" in console.file.getvalue()
