"""`up` fetches what it lacks: never unasked, once, and from a hub on this machine here."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from orchestrator.inputs.models import RECIPES
from tests.fake_hub import Hub, serving
from tests.fakes import eventually
from tests.orchestrator.test_run import MUSEORCH
from tests.orchestrator.up.servers import answer, environment, kept, museorch, write_serving

REPO = "org/tiny-GGUF"
TINY = RECIPES / "tiny-muse" / "model"
FILES = {
    name: (TINY / "gguf" / name).read_bytes() for name in ("target-bf16.gguf", "dflash-bf16.gguf")
}
TOKENIZER = (TINY / "target" / "tokenizer.json").read_bytes()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    cache = tmp_path / "cache"
    yield cache
    museorch(cache, "down", "--all")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    repositories = {REPO: FILES, "org/tiny": {"tokenizer.json": TOKENIZER}}
    with serving(repositories) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    """Served by the fake engine; weights and tokenizer are on the hub."""
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    model["tokenizer"] = "hub:org/tiny"
    for spec, file in (
        (model["target"], "target-bf16.gguf"),
        (model["drafters"]["dflash"], "dflash-bf16.gguf"),
    ):
        spec["artefacts"] = [{"format": "gguf", "quantisation": "bf16", "hub": REPO, "file": file}]
    (tmp_path / "hub.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    return str(write_serving(tmp_path, model="hub.yaml"))


def test_nothing_comes_unasked_and_with_yes_everything_comes_once(
    home: Path, served: Hub, recipe: str
) -> None:
    refused = museorch(home, "up", recipe, "--detach")
    assert refused.returncode == 2, refused.stderr
    assert "--yes" in refused.stderr
    assert f"5.8 MiB  {REPO}/target-bf16.gguf" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert served.gets == []
    assert kept(home) == []

    served.drop["target-bf16.gguf"] = 1000
    done = museorch(home, "up", recipe, "--detach", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"fetched {REPO}/target-bf16.gguf" in done.stderr
    assert answer(home, "ps")["servers"][0]["state"] == "running"
    assert {name for name, _ in served.gets} == {*FILES, "tokenizer.json"}

    before = len(served.gets)
    assert museorch(home, "down").returncode == 0
    assert museorch(home, "up", recipe, "--detach").returncode == 0, "it is here now"
    assert len(served.gets) == before


@pytest.mark.parametrize(("answered", "status"), [("n", 2), ("Ctrl-C", 130)])
def test_at_a_terminal_it_asks(
    home: Path, served: Hub, recipe: str, answered: str, status: int
) -> None:
    ours, theirs = pty.openpty()
    asking = subprocess.Popen(
        [*MUSEORCH, "up", recipe, "--detach"],
        env=environment(home),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while b"Fetch this?" not in said:
        said += os.read(ours, 4096)
    if answered == "n":
        os.write(ours, b"n\n")
    else:
        time.sleep(0.5)  # a signal between the question and the reading is seen with the next one
        asking.send_signal(signal.SIGINT)
    assert asking.wait(timeout=60) == status
    os.close(ours)
    assert served.gets == []


@pytest.mark.parametrize("how", ["offline", "away"])
def test_without_the_hub_it_says_what_to_fetch_and_where_to(
    home: Path, served: Hub, recipe: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    if how == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = museorch(home, "up", recipe, "--detach", "--yes")
    assert done.returncode == 1
    assert f"hf download {REPO} target-bf16.gguf" in done.stderr
    assert str(tmp_path / "hub") in done.stderr
    assert served.gets == []
    assert kept(home) == []


def test_the_disk_is_looked_at_first(home: Path, served: Hub, recipe: str) -> None:
    served.sizes["target-bf16.gguf"] = 1 << 60
    done = museorch(home, "up", recipe, "--detach", "--yes")
    assert done.returncode == 1
    assert "are to be fetched, and" in done.stderr
    assert "HF_HUB_CACHE" in done.stderr
    assert served.gets == []


def test_a_stopped_download_leaves_no_process(home: Path, served: Hub, recipe: str) -> None:
    served.stall["target-bf16.gguf"] = 1000
    running = subprocess.Popen(
        [*MUSEORCH, "up", recipe, "--detach", "--yes"],
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert eventually(lambda: "target-bf16.gguf" in {name for name, _ in served.gets}, 60)
    running.terminate()
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "files that came whole are kept" in err
    assert eventually(lambda: not downloads(REPO), 10)


def downloads(repo: str) -> list[int]:
    return [
        p.pid
        for p in psutil.process_iter(["cmdline"])
        if {"orchestrator.inputs.hub_download", repo} <= set(p.info["cmdline"] or [])
    ]
