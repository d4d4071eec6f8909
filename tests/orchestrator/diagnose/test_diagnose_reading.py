"""Logs of any size and content are read in bounded time and memory."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from backends.errors import InputError
from orchestrator.diagnose import diagnose, diagnose_stream, first_cause
from orchestrator.diagnose.reading import LINE, LINES, REGION, read_log, read_stream

ERROR = b"error: invalid argument: --flag\n"


def test_a_gigabyte_of_one_line_is_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.truncate(2**30)
    began = time.monotonic()

    read = read_log(log)
    result = diagnose(log)

    assert time.monotonic() - began < 30
    assert sum(len(line.text) for line in read.lines) <= 2 * LINE
    assert result.skipped_bytes == 2**30 - 2 * REGION
    assert result.first_error is None


def test_the_end_of_a_large_log_is_read_and_has_no_line_number(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.write(b"start\n")
        file.seek(2**28)
        file.write(b"\n" + ERROR)

    result = diagnose(log)

    assert result.first_error == "error: invalid argument: --flag"
    assert result.first_error_line is None
    assert result.skipped_bytes > 0


@pytest.mark.parametrize(
    "line",
    [b"error: failed to load model\n", b"a\n", b"\n", b"Traceback (most recent call last):\n"],
)
def test_many_short_lines_are_read_in_bounded_time(line: bytes, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(line * (3 * REGION // len(line)))
    began = time.monotonic()

    assert len(read_log(log).lines) <= 4 * LINES
    diagnose(log)

    assert time.monotonic() - began < 60


def test_half_a_line_at_the_gap_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"error: failed to load model\n" * (3 * REGION // 28))

    assert diagnose(log).first_error == "error: failed to load model"


def test_the_end_of_a_log_of_many_lines_is_read_and_numbered(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"a\n" * (3 * LINES) + ERROR)

    result = diagnose(log)

    assert result.first_error_line == 3 * LINES + 1
    assert result.skipped_bytes > 0


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="not a regular file"):
        read_log(tmp_path / "pipe")


def test_lines_are_numbered_as_an_editor_does(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\n\nthree\rprogress\r\n" + ERROR)

    read = read_log(log)

    assert [(line.number, line.text) for line in read.lines] == [
        (1, "one"),
        (3, "three"),
        (3, "progress"),
        (4, "error: invalid argument: --flag"),
    ]


def test_invalid_utf8_is_tolerated(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\xff\xfe\x80 noise\n" + ERROR)

    assert first_cause(log) is not None


def test_an_empty_log_has_no_error(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"")

    assert first_cause(log) is None


def test_a_server_killed_from_outside_is_explained_by_its_exit_status(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"loading\n")

    assert "kernel" in (first_cause(log, -9) or "")
    assert first_cause(log, 137) == first_cause(log, -9)
    assert first_cause(log, 1) is None
    log.write_bytes(ERROR)
    assert (first_cause(log, -9) or "").startswith("error: invalid argument")


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    data = ERROR + b"x" * (3 * REGION) + b"\nlast\n"
    log = tmp_path / "server.log"
    log.write_bytes(data)

    assert read_stream(io.BytesIO(data)) == read_log(log)
    assert diagnose_stream(io.BytesIO(data)) == diagnose(log)


def test_what_is_no_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_log(tmp_path / "none.log")
    with pytest.raises(InputError, match="not a regular file"):
        read_log(tmp_path)
    with pytest.raises(InputError, match="not a regular file"):
        read_log(Path(os.devnull))
