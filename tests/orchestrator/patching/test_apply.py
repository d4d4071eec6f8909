from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.errors import InputError, PatchError
from backends.patch import Edit
from backends.vllm.patches import NATIVE
from orchestrator.patching import apply, ensure, revert, status, verify
from tests.orchestrator.patching.tree import (
    BOTH,
    LOADER,
    LOADER_TEXT,
    RATE,
    SAMPLER,
    SAMPLER_TEXT,
    WRAPPER,
    hashes,
    packages,
    patch,
)


def states(folder: Path) -> dict[str, str]:
    return {found.id: found.state for found in status(folder, (WRAPPER, BOTH, RATE))}


def test_apply_and_revert_leave_no_trace(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    (folder / LOADER).chmod(0o640)
    before = hashes(folder)
    applied = apply(folder, (WRAPPER, BOTH))

    assert 'getattr(target, "model", target)' in (folder / LOADER).read_text()
    assert (folder / SAMPLER).read_text() == SAMPLER_TEXT.replace("max", "argmax")
    assert (folder / LOADER).stat().st_mode & 0o777 == 0o640
    assert [patch.id for patch in applied] == ["wrapper", "both"]
    assert applied[0].engine_version == "0.32.0"
    # The second patch begins where the first one ended.
    assert applied[0].files[0].before == before[LOADER]
    assert applied[0].files[0].after == applied[1].files[0].before
    assert applied[1].files[0].after == hashes(folder)[LOADER]
    assert verify(folder) == ()

    assert revert(folder) == ("wrapper", "both")
    assert hashes(folder) == before
    assert (folder / LOADER).stat().st_mode & 0o777 == 0o640


def test_apply_twice_changes_nothing(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    first = apply(folder, (WRAPPER,))
    after = hashes(folder)
    assert apply(folder, (WRAPPER,)) == first
    assert hashes(folder) == after


def test_revert_from_the_middle_keeps_the_others(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER, BOTH, RATE))
    revert(folder, ("both",))
    assert states(folder) == {"wrapper": "applied", "both": "needed", "rate": "applied"}
    assert (folder / SAMPLER).read_text() == SAMPLER_TEXT.replace("return 1", "return 2")
    assert verify(folder) == ()
    revert(folder, ("rate", "wrapper"))
    assert (folder / SAMPLER).read_text() == SAMPLER_TEXT


def test_a_patch_that_another_builds_on_cannot_be_reverted_alone(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (RATE,))
    later = patch("later", Edit(SAMPLER, "return 2\n", "return 3\n"))
    apply(folder, (later,))
    after = hashes(folder)
    with pytest.raises(PatchError, match="occurs 0 times"):
        revert(folder, ("rate",))
    assert hashes(folder) == after


@pytest.mark.parametrize(("text", "count"), [("return 1\n" * 2, 2), ("", 0)])
def test_refuses_unless_there_is_exactly_one_match(tmp_path: Path, text: str, count: int) -> None:
    folder = packages(tmp_path)
    (folder / SAMPLER).write_text(text)
    before = hashes(folder)
    with pytest.raises(PatchError, match=f"rate does not fit: .*occurs {count} times"):
        apply(folder, (WRAPPER, RATE))
    assert hashes(folder) == before


def test_refuses_a_read_only_file(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    (folder / SAMPLER).chmod(0o444)
    before = hashes(folder)
    with pytest.raises(PatchError, match=r"sampler\.py: read-only.*chmod"):
        apply(folder, (BOTH,))
    assert hashes(folder) == before


def test_refuses_to_break_the_syntax(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    with pytest.raises(PatchError, match="not be valid Python"):
        apply(folder, (patch("bad", Edit(LOADER, "def load(target):\n", "def load(:\n")),))
    assert (folder / LOADER).read_text() == LOADER_TEXT


def test_a_write_that_fails_halfway_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = packages(tmp_path)
    before = hashes(folder)
    replace = os.replace

    def full_disk(source: str | Path, target: str | Path) -> None:
        if Path(target).name == "sampler.py":
            monkeypatch.setattr(os, "replace", replace)
            raise OSError(28, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(PatchError, match="No space left on device"):
        apply(folder, (BOTH,))
    assert hashes(folder) == before


def test_a_disk_that_stays_full_leaves_a_change_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = packages(tmp_path)
    before = hashes(folder)
    replace = os.replace
    done: list[str | Path] = []

    def full_disk(source: str | Path, target: str | Path) -> None:
        if Path(target).suffix == ".py":
            if done:
                raise OSError(28, "No space left on device", str(target))
            done.append(target)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full_disk)
        for action in (lambda: apply(folder, (BOTH,)), lambda: revert(folder)):
            with pytest.raises(PatchError, match=r"No space left.* half done.*Free some space"):
                action()
    assert states(folder)["both"] == "broken"
    assert revert(folder) == ()
    assert hashes(folder) == before


def test_a_stop_while_the_journal_goes_leaves_the_engine_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = packages(tmp_path)
    before = hashes(folder)
    apply(folder, (BOTH,))
    remove = shutil.rmtree

    def stopped(journal: Path, **_: object) -> None:
        remove(journal / "originals")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", stopped)
        with pytest.raises(KeyboardInterrupt):
            revert(folder)
    assert hashes(folder) == before
    assert states(folder)["both"] == "needed"
    assert apply(folder, (BOTH,))


def test_a_kept_original_that_was_changed_is_not_put_back(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER,))
    (original,) = (folder / "museorch-patches" / "originals").iterdir()
    original.write_text("# mine\n")
    after = hashes(folder)
    with pytest.raises(PatchError, match=r"the kept original of vllm/loader\.py is damaged"):
        revert(folder)
    assert hashes(folder) == after


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda text: text[:-20],
        lambda text: text.replace(b"wrapper", b"\xff"),
        lambda text: text.replace(b'"originals": {', b'"originals": {}, "x": {'),
        lambda text: re.sub(rb'"originals": \{[^}]*\}', b'"originals": {}', text),
    ],
)
def test_a_damaged_journal_is_named(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER,))
    journal = folder / "museorch-patches" / "journal.json"
    journal.write_bytes(change(journal.read_bytes()))
    after = hashes(folder)
    for action in (lambda: revert(folder), lambda: apply(folder, (BOTH,)), lambda: states(folder)):
        with pytest.raises(PatchError, match=r"journal\.json: the patch journal cannot be read"):
            action()
    assert hashes(folder) == after


def test_a_kill_between_two_files_is_repaired(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    before = hashes(folder)
    script = """
        import os, signal, sys
        from pathlib import Path
        from orchestrator.patching import apply
        from tests.orchestrator.patching.tree import BOTH
        replace = os.replace
        def killed(source, target):
            replace(source, target)
            if Path(target).name == "loader.py":
                os.kill(os.getpid(), signal.SIGKILL)
        os.replace = killed
        apply(Path(sys.argv[1]), (BOTH,))
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(folder)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert (folder / LOADER).read_text() != LOADER_TEXT
    assert (folder / SAMPLER).read_text() == SAMPLER_TEXT
    assert states(folder)["both"] == "broken"
    assert verify(folder) == ("a change was cut off: vllm/loader.py, vllm/sampler.py",)

    half_patched = (folder / LOADER).read_text()
    (folder / LOADER).write_text("# mine\n")
    with pytest.raises(PatchError, match=r"changed since\. Install the engine again and delete"):
        revert(folder)
    (folder / LOADER).write_text(half_patched)

    assert revert(folder) == ()
    assert hashes(folder) == before
    apply(folder, (BOTH,))
    assert verify(folder) == ()


def test_refuses_a_file_that_something_else_changed(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER,))
    with (folder / LOADER).open("a") as file:
        file.write("# mine\n")
    assert verify(folder) == ("wrapper: vllm/loader.py is not as it was patched",)
    assert states(folder)["wrapper"] == "broken"
    for action in (lambda: revert(folder), lambda: apply(folder, (WRAPPER,))):
        with pytest.raises(PatchError, match="changed by something else"):
            action()
    assert "# mine" in (folder / LOADER).read_text()


def test_an_engine_installed_again_is_unpatched(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER,))
    (folder / LOADER).write_text(LOADER_TEXT)
    assert states(folder)["wrapper"] == "needed"
    apply(folder, (WRAPPER,))
    assert states(folder)["wrapper"] == "applied"


def test_another_version_starts_anew(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER,))
    (folder / "vllm-0.32.0.dist-info").rename(folder / "vllm-0.33.0.dist-info")
    newer = LOADER_TEXT + "# 0.33\n"
    (folder / LOADER).write_text(newer)
    assert apply(folder, (WRAPPER,))[0].engine_version == "0.33.0"
    revert(folder)
    assert (folder / LOADER).read_text() == newer


def test_a_stale_compiled_file_is_removed(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    compiled = folder / "vllm" / "__pycache__" / "loader.cpython-311.pyc"
    compiled.write_bytes(b"old")
    apply(folder, (WRAPPER,))
    assert not compiled.exists()


def test_revert_names_what_is_applied(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    apply(folder, (WRAPPER,))
    with pytest.raises(InputError, match=r"rate is not applied.*Applied: wrapper"):
        revert(folder, ("rate",))


def test_ensure_applies_only_where_it_may(tmp_path: Path) -> None:
    folder = packages(tmp_path / "venv" / "lib" / "python3.11")
    (tmp_path / "venv" / "bin").mkdir()
    (tmp_path / "venv" / "bin" / "python").touch()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    command = f"museorch patch apply wrapper rate --python {tmp_path}/venv/bin/python"
    with pytest.raises(PatchError) as error:
        ensure(folder, (WRAPPER, RATE), owned=False, in_place=False)
    assert command in error.value.message
    assert (folder / LOADER).read_text() == LOADER_TEXT

    applied = ensure(folder, (WRAPPER, RATE), owned=False, in_place=True)
    assert [patch.id for patch in applied] == ["wrapper", "rate"]
    assert ensure(folder, (WRAPPER, RATE), owned=False, in_place=False) == applied
    assert ensure(folder, (WRAPPER, RATE), owned=True, in_place=False) == applied


def test_ensure_leaves_out_what_the_engine_has_fixed(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    (folder / LOADER).write_text("def load(target):\n    return own_fix(target)\n")
    assert ensure(folder, (WRAPPER,), owned=False, in_place=False) == ()
    assert ensure(folder, (WRAPPER,), owned=True, in_place=False) == ()


def test_ensure_says_when_no_patch_helps(tmp_path: Path) -> None:
    folder = packages(tmp_path, "0.26.0")
    (folder / NATIVE.file).unlink()
    with pytest.raises(PatchError, match=r"vllm 0\.26\.0 does not know Muse Glimmer.*is 0\.28\.0"):
        ensure(folder, (WRAPPER,), owned=True, in_place=False)


def test_no_such_environment(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="no such package folder"):
        apply(tmp_path / "nowhere", (WRAPPER,))
