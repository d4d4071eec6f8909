from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.base import RequestSpeculation
from backends.errors import InputError
from orchestrator.load.sample import Sample, append, read

SAMPLE = Sample(
    request_id="a/greedy/c1/r0/p0",
    prompt_id="p0",
    arm="a",
    mode="greedy",
    concurrency=1,
    repeat=0,
    seed=7,
    prompt_tokens=3,
    t_send_ns=10,
    chunks=((20, (5,)), (30, (6, 7))),
    t_end_ns=40,
    finish="length",
    server=RequestSpeculation(steps=1, histogram=(0, 1)),
    server_prompt_tokens=3,
    server_completion_tokens=None,
    error=None,
)
FAILED = replace(SAMPLE, chunks=(), finish=None, server=None, error="HTTP 500: “no”\n")


def test_facts_of_a_sample() -> None:
    assert SAMPLE.token_ids == (5, 6, 7)
    assert (SAMPLE.t_first_ns, SAMPLE.t_last_ns) == (20, 30)
    assert FAILED.token_ids == ()
    assert (FAILED.t_first_ns, FAILED.t_last_ns) == (None, None)


@pytest.mark.parametrize("sample", [SAMPLE, FAILED])
def test_json_there_and_back(sample: Sample) -> None:
    tokens = sample.token_ids  # kept with the sample from here on, and not among its facts
    line = sample.to_json()
    assert "\n" not in line
    assert Sample.from_json(line) == sample
    assert Sample.from_json(line).token_ids == tokens


def test_samples_are_read_in_the_order_written(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    for sample in (SAMPLE, FAILED, SAMPLE):
        append(path, sample)
    assert read(path) == [SAMPLE, FAILED, SAMPLE]


def test_an_empty_file_holds_no_samples(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.touch()
    assert read(path) == []


@pytest.mark.parametrize("torn", ['{"request_id":"x"', SAMPLE.to_json(), "{" * 70_000])
def test_a_torn_last_line_is_left_out_and_written_over(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "samples.jsonl"
    append(path, SAMPLE)
    with path.open("a") as file:
        file.write(torn)
    notices: list[str] = []
    assert read(path, notices.append) == [SAMPLE]
    assert notices == [f"{path}: the last line was cut off and is left out"]

    append(path, FAILED)
    assert read(path, notices.append) == [SAMPLE, FAILED]
    assert len(notices) == 1


def test_a_torn_first_line_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"request')
    assert read(path) == []
    assert "cut off" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{", "JSON"),
        ("", "JSON"),
        (SAMPLE.to_json().replace('"seed":7', '"seed":"7"'), "seed"),
        (SAMPLE.to_json().replace('"seed":7,', ""), "seed"),
        (SAMPLE.to_json().replace('"seed":7', '"seed":7,"speed":8'), "speed"),
        (SAMPLE.to_json().replace("[5]", '["5"]'), "chunks.0.1.0"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, bad: str, why: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(f"{SAMPLE.to_json()}\n{bad}\n")
    with pytest.raises(InputError, match=why) as error:
        read(path)
    assert error.value.where == f"{path}:2"
