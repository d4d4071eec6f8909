from __future__ import annotations

import io
import json

from orchestrator.progress import Progress
from tests.orchestrator.measured import sample, told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_one_turn(progress: Progress, prompts: int = 3) -> None:
    with progress:
        progress.turn(1, 2, "llamacpp-dspark", 1)
        progress.detail("starting")
        progress.phase("greedy", 1, prompts)
        for number in range(prompts):
            progress.sample(sample(number, 101, 2.0, told=told(10, 20)))
        progress.turn(2, 2, "llamacpp-base", 2)
        progress.note("done\x1b[2J")


def test_a_log_gets_a_line_per_turn_and_phase() -> None:
    log = io.StringIO()
    run_one_turn(Progress(stream=log))
    assert [line[6:] for line in log.getvalue().splitlines()] == [
        "[1/2] llamacpp-dspark",
        "  greedy: 3/3 prompts, 50.0 tok/s a request, tau 3.00",
        "[2/2] llamacpp-base again, for drift, about 00:00 left",
        "done\\x1b[2J",
    ]


def test_a_terminal_gets_a_moving_line() -> None:
    terminal = Terminal()
    run_one_turn(Progress(stream=terminal))
    moving = (
        "[1/2] llamacpp-dspark: greedy: 2/3 prompts, 50.0 tok/s a request, tau 3.00, 00:00 left"
    )
    assert moving[:78] in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K\r")
    assert "\x1b[2J" not in terminal.getvalue()


def test_machines_get_an_object_a_line() -> None:
    log = Terminal()
    run_one_turn(Progress(lines=True, stream=log))
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        "turn",
        "detail",
        "phase",
        "sample",
        "sample",
        "sample",
        "turn",
        "note",
    ]
    last = events[5]
    assert (last["done"], last["total"], last["failed"]) == (3, 3, 0)
    assert (last["decode_tok_s"], last["acceptance_length"]) == (50.0, 3.0)
    assert last["seconds_left"] == 0


def test_quiet_says_nothing() -> None:
    terminal = Terminal()
    run_one_turn(Progress(quiet=True, lines=True, stream=terminal))
    assert terminal.getvalue() == ""


def test_failures_are_counted_and_unknown_is_left_out() -> None:
    log = io.StringIO()
    progress = Progress(stream=log)
    progress.turn(1, 1, "vllm-base", 1)
    progress.phase("greedy", 4, 2)
    progress.sample(sample(0, 0, error="HTTP 500"))
    progress.sample(sample(1, 0, error="HTTP 500"))
    assert log.getvalue().splitlines()[-1].endswith("greedy, 4 at a time: 2/2 prompts, 2 failed")
