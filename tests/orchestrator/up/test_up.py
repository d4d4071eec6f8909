"""Servers on the fake engine: every way up and every way down leaves what it should."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from orchestrator.inputs.models import RECIPES
from orchestrator.up.choice import Options
from orchestrator.up.choose import choose
from orchestrator.up.start import start
from tests.fakes import eventually
from tests.orchestrator.test_run import MUSEORCH
from tests.orchestrator.up.servers import (
    REJECTS,
    answer,
    environment,
    kept,
    museorch,
    processes,
    write_serving,
)

KEY = "a-key-that-is-long-enough"
NAME = "tiny-muse-llamacpp-dflash"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own; whatever the test does, none of its processes stays."""
    cache = tmp_path / "cache"
    yield cache
    if kept(cache):
        museorch(cache, "down", "--all")
    assert eventually(lambda: not processes(tmp_path))


def test_up_is_seen_asked_and_ended(home: Path, tmp_path: Path) -> None:
    done = museorch(home, "up", str(write_serving(tmp_path)), "--detach")
    assert done.returncode == 0, done.stderr
    assert f"{NAME} is up" in done.stdout
    assert "curl http://127.0.0.1:" in done.stdout
    assert "acceptance length 2." in done.stdout
    assert "needed" in done.stderr

    (row,) = answer(home, "ps")["servers"]
    assert (row["name"], row["state"], row["detached"]) == (NAME, "running", True)
    assert psutil.pid_exists(row["pid"])
    assert httpx.get(row["url"].removesuffix("/v1") + "/health").status_code == 200
    state = home / "servers" / NAME / "state.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert stat.S_IMODE((state.parent / "server.log").stat().st_mode) == 0o600

    told = answer(home, "status", "--interval", "0.1")
    assert told["acceptance_length"] == pytest.approx(2.67, abs=0.3)
    assert told["marginal_acceptance"][0] == pytest.approx(0.67, abs=0.1)
    assert "listening on port" in museorch(home, "logs").stdout
    assert NAME in museorch(home, "top").stdout
    ascii_only = museorch(home, "status", "--interval", "0.1", env={"PYTHONIOENCODING": "ascii"})
    assert "% ????" in ascii_only.stdout, ascii_only.stderr

    down = museorch(home, "down", NAME)
    assert (down.returncode, down.stdout) == (0, f"{NAME}: ended\n")
    assert kept(home) == []
    assert not processes(tmp_path)
    assert museorch(home, "down", NAME).returncode == 2


def test_a_name_is_taken_once_and_ports_are_not_shared(home: Path, tmp_path: Path) -> None:
    recipe = str(write_serving(tmp_path))
    assert museorch(home, "up", recipe, "--detach").returncode == 0
    again = museorch(home, "up", recipe, "--detach")
    assert again.returncode == 2
    assert "it is running at http://127.0.0.1:" in again.stderr
    assert museorch(home, "up", recipe, "--detach", "--name", "other").returncode == 0
    rows = answer(home, "ps")["servers"]
    assert len({row["port"] for row in rows}) == 2
    assert "which one?" in museorch(home, "status").stderr
    assert museorch(home, "down", "--all").returncode == 0
    assert kept(home) == []


def test_two_at_once_do_not_collide(home: Path, tmp_path: Path) -> None:
    recipe = str(write_serving(tmp_path, "--accept 3 --draft-tokens 7 --slow-listen 0.5"))
    both = [
        subprocess.Popen(
            [*MUSEORCH, "up", recipe, "--detach", *more],
            env=environment(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for more in ((), (), ("--name", "other"))
    ]
    said = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 0, 2], said
    rows = answer(home, "ps")["servers"]
    assert [row["name"] for row in rows] == ["other", NAME]
    assert rows[0]["port"] != rows[1]["port"]


def test_two_homes_at_once_do_not_share_a_port(home: Path, tmp_path: Path) -> None:
    recipe = str(write_serving(tmp_path, "--accept 3 --draft-tokens 7 --slow-listen 1"))
    homes = (home, tmp_path / "other-cache")
    try:
        both = [
            subprocess.Popen(
                [*MUSEORCH, "up", recipe, "--detach"],
                env=environment(cache),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for cache in homes
        ]
        said = [process.communicate(timeout=120)[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], said
        ports = {answer(cache, "ps")["servers"][0]["port"] for cache in homes}
        assert len(ports) == 2
    finally:
        museorch(homes[1], "down", "--all")


def foreground(home: Path, recipe: Path, *more: str) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [*MUSEORCH, "up", str(recipe), *more],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert any("end it with  Ctrl-C" in line for line in running.stdout), running.communicate()
    return running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_one_in_the_foreground_cleanly(
    home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    running = foreground(home, write_serving(tmp_path))
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert kept(home) == []
    assert not processes(tmp_path / "llama-server")


def test_an_interrupt_that_strikes_after_the_gate_leaves_no_log(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSEORCH_HOME", str(home))
    options = Options(recipe=str(write_serving(tmp_path)), host="127.0.0.1")
    choice = choose(options)
    started = start(
        choice,
        options,
        name=NAME,
        key=None,
        detach=False,
        patch_in_place=False,
        on_progress=lambda _: None,
    )
    with pytest.raises(KeyboardInterrupt), started:
        raise KeyboardInterrupt
    assert kept(home) == []


def test_down_ends_the_one_in_the_foreground(home: Path, tmp_path: Path) -> None:
    running = foreground(home, write_serving(tmp_path))
    assert museorch(home, "down").returncode == 0
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "stopped by museorch down" in err
    assert kept(home) == []


def test_a_killed_museorch_takes_its_server_along(home: Path, tmp_path: Path) -> None:
    recipe = write_serving(tmp_path)
    running = foreground(home, recipe)
    running.kill()
    running.communicate()
    assert eventually(lambda: not processes(tmp_path / "llama-server"), 30)
    assert answer(home, "ps")["servers"][0]["state"] == "ended"
    status = museorch(home, "status", "--json")
    assert status.returncode == 1
    assert json.loads(status.stdout)["acceptance_length"] is None
    assert museorch(home, "up", str(recipe), "--detach").returncode == 0, "its name is free again"


def test_an_engine_that_dies_is_told_with_the_cause(home: Path, tmp_path: Path) -> None:
    recipe = write_serving(tmp_path, "--accept 3,0,2 --draft-tokens 7 --exit-after 200")
    running = foreground(home, recipe)
    url = answer(home, "ps")["servers"][0]["url"].removesuffix("/v1")
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"{url}/completion", json={"prompt": [1, 2], "n_predict": 200, "stream": True})
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "told to exit" in err
    assert kept(home) == [NAME, f"{NAME}/server.log"]
    assert "told to exit" in museorch(home, "logs", NAME).stdout


def test_restart_keeps_port_and_settings(home: Path, tmp_path: Path) -> None:
    assert museorch(home, "up", str(write_serving(tmp_path)), "--detach").returncode == 0
    (before,) = answer(home, "ps")["servers"]
    (tmp_path / "recipe.yaml").rename(tmp_path / "away.yaml")
    assert museorch(home, "restart").returncode == 2
    assert answer(home, "ps")["servers"] == [before], "it was not ended for nothing"
    (tmp_path / "away.yaml").rename(tmp_path / "recipe.yaml")
    (tmp_path / "llama-server").rename(tmp_path / "away")
    assert "llama-server" in museorch(home, "restart").stderr
    assert answer(home, "ps")["servers"] == [before], "it was not ended for nothing"
    (tmp_path / "away").rename(tmp_path / "llama-server")
    done = museorch(home, "restart", env={"MUSEORCH_API_KEY": KEY})
    assert done.returncode == 0, done.stderr
    (after,) = answer(home, "ps")["servers"]
    assert after["pid"] != before["pid"]
    same = ("name", "port", "speculation", "draft_tokens", "context_length", "needs_key")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}


def test_a_key_is_needed_beyond_this_machine_and_shown_nowhere(home: Path, tmp_path: Path) -> None:
    recipe = str(write_serving(tmp_path))
    refused = museorch(home, "up", recipe, "--host", "0.0.0.0", "--detach")
    assert refused.returncode == 2
    assert "API key is needed" in refused.stderr
    assert "16 to 512" in museorch(home, "up", recipe, "--api-key", "schlüssel" * 2).stderr
    assert "is empty" in museorch(home, "up", recipe, "--api-key", "").stderr
    assert kept(home) == []

    done = museorch(home, "up", recipe, "--detach", "--api-key", KEY)
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert not [words for words in processes(tmp_path) if any(KEY in word for word in words)]
    (row,) = answer(home, "ps")["servers"]
    assert row["needs_key"]
    assert museorch(home, "down", NAME, "--all").returncode == 2
    assert psutil.Process(row["pid"]).environ()["LLAMA_API_KEY"] == KEY
    for path in (home / "servers").rglob("*"):
        assert not path.is_file() or KEY not in path.read_text(errors="replace"), path
    assert "MUSEORCH_API_KEY" in museorch(home, "restart").stderr
    assert answer(home, "ps")["servers"][0]["pid"] == row["pid"], "it was not ended for nothing"


def test_a_key_on_the_command_line_leaves_it_at_once(home: Path, tmp_path: Path) -> None:
    recipe = write_serving(tmp_path)
    running = foreground(home, recipe, f"--api-key={KEY}")
    words = psutil.Process(running.pid).cmdline()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 0
    assert str(recipe) in words
    assert not any(KEY in word for word in words)


def fails(home: Path, *words: str, status: int) -> str:
    """The one message with which `up` fails; nothing is left but a log."""
    done = museorch(home, "up", *words, "--detach")
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    told = [line for line in done.stderr.splitlines() if line.startswith("museorch: ")]
    assert len(told) == 1, done.stderr
    assert answer(home, "ps")["servers"] == []
    assert [name for name in kept(home) if not name.endswith((NAME, "server.log"))] == []
    return told[0]


def test_a_port_in_use(home: Path, tmp_path: Path) -> None:
    recipe = str(write_serving(tmp_path))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert f"port {port} is in use" in fails(home, recipe, "--port", port, status=2)
    assert kept(home) == []


def test_no_engine(home: Path) -> None:
    told = fails(home, "--model", "tiny-muse", "--backend", "llamacpp", status=1)
    assert "museorch engines install llamacpp" in told


def changed_model(folder: Path, part: str, **changes: object) -> str:
    """tiny-muse's model file with something changed, its files where they are."""
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))
    model["tokenizer"] = str(RECIPES / model["tokenizer"])
    for spec in (model["target"], *model["drafters"].values()):
        for artefact in spec["artefacts"]:
            if "path" in artefact:
                artefact["path"] = str(RECIPES / artefact["path"])
    spec = model["target"] if part == "target" else model["drafters"][part]
    spec.update(changes)
    (folder / "changed.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    return "changed.yaml"


def test_a_dead_drafter_path(home: Path, tmp_path: Path) -> None:
    artefacts = [{"format": "gguf", "quantisation": "bf16", "path": "gone.gguf"}]
    model = changed_model(tmp_path, "dflash", artefacts=artefacts)
    told = fails(home, str(write_serving(tmp_path, model=model)), status=2)
    assert "no such GGUF file" in told
    assert "gone.gguf" in told


def test_a_drafter_of_the_other_kind(home: Path, tmp_path: Path) -> None:
    other = RECIPES / "tiny-muse" / "model" / "gguf" / "dspark-bf16.gguf"
    artefacts = [{"format": "gguf", "quantisation": "bf16", "path": str(other)}]
    model = changed_model(tmp_path, "dflash", artefacts=artefacts)
    told = fails(home, str(write_serving(tmp_path, model=model)), status=2)
    assert "holds a dspark drafter, not dflash" in told


def test_too_little_memory(home: Path, tmp_path: Path) -> None:
    huge = {
        "full_layers": 10**9,
        "sliding_layers": 0,
        "window": 1,
        "kv_heads": 8,
        "head_dim": 128,
    }
    model = changed_model(tmp_path, "target", attention=huge)
    told = fails(home, str(write_serving(tmp_path, model=model)), status=1)
    assert "KV cache" in told
    assert "are free" in told
    assert kept(home) == []


def test_drafts_that_are_not_accepted(home: Path, tmp_path: Path) -> None:
    told = fails(home, str(write_serving(tmp_path, REJECTS)), status=1)
    assert "hardly ever accepted" in told
    assert "museorch lint" in told


def test_an_engine_that_does_not_start(home: Path, tmp_path: Path) -> None:
    flags = "--log 'error: unable to mmap 12345 bytes' --fail-start 3"
    told = fails(home, str(write_serving(tmp_path, flags)), status=1)
    assert "the engine ended before it was ready" in told
    assert "unable to mmap" in museorch(home, "logs", NAME).stdout


def starting(home: Path, recipe: Path) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [*MUSEORCH, "up", str(recipe), "--detach"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    state = home / "servers" / NAME / "state.json"
    assert eventually(lambda: state.exists() and '"engine": {' in state.read_text(), 60)
    return running


def test_an_interrupted_start_leaves_nothing(home: Path, tmp_path: Path) -> None:
    running = starting(home, write_serving(tmp_path, "--slow-listen 60"))
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "before it was ready" in err
    assert not processes(tmp_path / "llama-server")
    assert answer(home, "ps")["servers"] == []


def test_down_ends_a_start(home: Path, tmp_path: Path) -> None:
    running = starting(home, write_serving(tmp_path, "--slow-listen 60"))
    assert museorch(home, "down").stdout == f"{NAME}: ended\n"
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "ended by `museorch down`" in err
    assert kept(home) == []


def test_a_start_whose_museorch_was_killed_is_told_and_can_be_ended(
    home: Path, tmp_path: Path
) -> None:
    running = starting(home, write_serving(tmp_path, "--slow-listen 60"))
    running.kill()
    running.communicate(timeout=60)
    assert "museorch down" in museorch(home, "status").stdout
    assert museorch(home, "down").returncode == 0
    assert kept(home) == []


def test_a_dry_run_starts_nothing(home: Path, tmp_path: Path) -> None:
    recipe = str(write_serving(tmp_path))
    done = museorch(home, "up", recipe, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "--spec-draft-n-max" in done.stdout
    assert "KV cache" in done.stdout
    data = answer(home, "up", recipe, "--dry-run")
    assert data["plan"]["conditions"]["prefix_cache"] == "on"
    assert data["memory"]["needed"] > 0
    assert kept(home) == []


def test_logs_can_be_followed_and_show_no_escape(home: Path, tmp_path: Path) -> None:
    recipe = write_serving(tmp_path, "--accept 3 --draft-tokens 7 --log '\x1b[31mred\x1b]0;t\x07'")
    assert museorch(home, "up", str(recipe), "--detach").returncode == 0
    following = subprocess.Popen(
        [*MUSEORCH, "logs", "-f"], env=environment(home), stdout=subprocess.PIPE, text=True
    )
    assert following.stdout is not None
    first = following.stdout.readline()
    assert museorch(home, "down").returncode == 0
    rest, _ = following.communicate(timeout=30)
    assert following.returncode == 0
    assert "red" in first + rest
    assert "\x1b" not in first + rest


def test_nothing_is_written_where_nothing_can_be(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    done = museorch(blocked / "cache", "up", str(write_serving(tmp_path)), "--detach")
    assert done.returncode == 1, done.stderr
    assert "Set MUSEORCH_HOME" in done.stderr
