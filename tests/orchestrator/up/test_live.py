from __future__ import annotations

from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from orchestrator.measuring.counters import Counters
from orchestrator.up.live import Reading, read
from tests.orchestrator.up.test_state import state


def reading(at: float, counters: Counters, generated: float, requests: float | None) -> Reading:
    return Reading(at, counters, generated, 0, 0, requests)


def test_length_by_counters() -> None:
    before = reading(0.0, Counters(10, 150, 5), 15, None)
    now = reading(1.0, Counters(30, 450, 45), 75, None)
    assert now.length() == pytest.approx(2.5)
    assert now.length(before) == pytest.approx(3.0)
    assert now.length(now) is None, "nothing was drafted in between"


def test_length_by_tokens_where_accepted_drafts_are_not_counted() -> None:
    """As SGLang told after 6 requests: 190 tokens, 26 passes; a first token comes of none."""
    now = reading(1.0, Counters(26), 190, 6)
    assert now.length() == pytest.approx(184 / 26)
    assert reading(1.0, Counters(26), 190, None).length() is None
    assert reading(1.0, Counters(), 190, 6).length() is None


class _Locked(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(401)

    def log_message(self, *_: object) -> None:
        pass


def test_a_wrong_key_is_told_in_one_line() -> None:
    with HTTPServer(("127.0.0.1", 0), _Locked) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        one = replace(state(), url=f"http://127.0.0.1:{server.server_port}")
        told = [read(one, key) for key in (None, "another-key")]
        server.shutdown()
    assert told == [
        "its metrics need the API key: set MUSEORCH_API_KEY",
        "its metrics refuse this API key: set MUSEORCH_API_KEY",
    ]
