from __future__ import annotations

from dataclasses import replace

import pytest

from backends.base import CounterMap, RequestSpeculation, SpecRecord
from backends.errors import EngineError
from backends.llamacpp.launch import LLAMACPP
from orchestrator.measuring.counters import Counters, agree, delta, scrape, spec_record

NAMES = CounterMap(
    steps="vllm:spec_decode_num_drafts_total",
    drafted="vllm:spec_decode_num_draft_tokens_total",
    accepted="vllm:spec_decode_num_accepted_tokens_total",
    per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
)
PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="a"} 5.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0"} 1.7e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 4.5e+01
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total 9
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 4.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 3.0
"""


def test_scrape_sums_over_labels_and_orders_positions() -> None:
    assert scrape(PAGE, NAMES) == Counters(15, 45, 9, (6, 3, *[0] * 9))


def test_what_is_not_there_is_unknown() -> None:
    assert scrape("# TYPE other counter\nother_total 3\n", NAMES) == Counters()
    assert scrape(PAGE, CounterMap("vllm:spec_decode_num_drafts_total", None, None, None)) == (
        Counters(steps=15)
    )


@pytest.mark.parametrize(
    "page",
    [
        "vllm:spec_decode_num_drafts_total 1.5",
        "vllm:spec_decode_num_drafts_total NaN",
        "vllm:spec_decode_num_drafts_total -5",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total 3",
        "<html>not metrics</html>",
    ],
)
def test_a_page_that_makes_no_sense(page: str) -> None:
    with pytest.raises(EngineError, match="/metrics: the metrics page cannot be read"):
        scrape(page, NAMES)


def test_delta() -> None:
    before = Counters(1, 4, 2, (1, 1))
    after = Counters(5, 20, 9, (4, 3, 2))
    assert delta(before, after) == Counters(4, 16, 7, (3, 2, 2))
    assert delta(Counters(), after) == after
    assert delta(Counters(), Counters()) == Counters()


@pytest.mark.parametrize("after", [Counters(0, 4, 2, (1, 1)), Counters(), Counters(1, 4, 2, (0,))])
def test_a_counter_that_shrinks_means_another_server(after: Counters) -> None:
    with pytest.raises(EngineError, match="restarted"):
        delta(Counters(1, 4, 2, (1, 1)), after)


def test_counters_are_preferred() -> None:
    requests = [RequestSpeculation(steps=1, drafted=1, accepted=1)]
    record = spec_record(Counters(4, 16, 7, (3, 2, 2, 0)), requests, 4)
    assert record == SpecRecord(4, 16, 7, (3, 2, 2, 0), "counters")


def test_counters_that_cover_other_requests_are_seen() -> None:
    record = SpecRecord(400, 1600, 700, None, "counters")
    answers = [RequestSpeculation(accepted=350), RequestSpeculation(histogram=(0, 350))]
    agree(record, answers)
    agree(record, [*answers, None])  # one does not tell, so nothing is known
    agree(record, [])
    for accepted in (340, 360):
        with pytest.raises(EngineError, match="counted 700 accepted drafts, the answers that came"):
            agree(record, [answers[0], RequestSpeculation(accepted=accepted)])


def test_requests_fill_in_where_counters_are_missing() -> None:
    requests = [
        RequestSpeculation(steps=3, drafted=12, accepted=4, histogram=(1, 1, 0, 1)),
        None,
        RequestSpeculation(drafted=8, histogram=(1, 0, 1)),
    ]
    record = spec_record(Counters(steps=5), requests, 4)
    assert record == SpecRecord(5, 20, 6, (3, 2, 1, 0), "requests")


def test_positions_are_unknown_when_one_request_does_not_tell_them() -> None:
    requests = [
        RequestSpeculation(drafted=4, histogram=(0, 1)),
        RequestSpeculation(steps=2, drafted=8, accepted=3),
    ]
    assert spec_record(Counters(), requests, 4) == SpecRecord(3, 12, 4, None, "requests")


@pytest.mark.parametrize(
    "requests", [[], [None], [RequestSpeculation(drafted=9, accepted=3)], [RequestSpeculation()]]
)
def test_too_little_to_tell(requests: list[RequestSpeculation | None]) -> None:
    assert spec_record(Counters(steps=5), requests, 4) is None


def test_positions_beyond_the_drafts_are_left_out() -> None:
    record = spec_record(Counters(4, 8, 5, (3, 2, 0, 0)), [], 2)
    assert record == SpecRecord(4, 8, 5, (3, 2), "counters")


def test_no_drafter_no_record() -> None:
    assert spec_record(Counters(0, 0, 0, (0,)), [], None) is None


def test_a_drafter_that_never_drafted_is_a_fact() -> None:
    assert spec_record(Counters(0, 0, 0, ()), [], 4) == SpecRecord(
        0, 0, 0, (0, 0, 0, 0), "counters"
    )


@pytest.mark.parametrize(
    ("phase", "why"),
    [
        (Counters(2, 4, 5), "5 drafts accepted, only 4 made"),
        (Counters(2, 9, 5), "9 drafts in 2 steps, more than 4 a step"),
        (Counters(2, 8, 5, (2, 2)), "5 drafts accepted, 4 over all positions"),
        (Counters(2, 8, 3, (3, 0)), "3 accepted at position 0 in 2 steps"),
        (Counters(2, 8, 3, (1, 2)), "2 accepted at position 1, only 1 at 0"),
        (Counters(3, 12, 6, (2, 1, 1, 1, 1)), "accepted at position 4, of 4 drafts"),
    ],
)
def test_contradictions_are_named(phase: Counters, why: str) -> None:
    with pytest.raises(EngineError, match=why):
        spec_record(phase, [], 4)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (RequestSpeculation(steps=4, drafted=8, histogram=(1, 2)), "4 steps, its own histogram 3"),
        (RequestSpeculation(accepted=3, drafted=8, histogram=(1, 2)), "its own histogram 2"),
    ],
)
def test_a_request_that_contradicts_its_histogram(request_: RequestSpeculation, why: str) -> None:
    with pytest.raises(EngineError, match=why):
        spec_record(Counters(), [request_], 4)


def test_drafting_time_is_told_by_the_log() -> None:
    """Lines as llama-server writes them, once a request, counting from its start on."""
    line = (
        "0.00.480.827 I spec common_specu: statistics     draft-dflash: #calls(b,g,a) =    1 {:6} "
        "    51, #gen drafts =     51, #mean acc len = 1.22, #acc rate/pos = (0.196, 0.020), "
        "dur(b,g,a) = 0.001, {:.3f}, 0.008 ms\n"
    )
    first, second = line.format(51, 35.954), line.format(102, 75.130)
    names = LLAMACPP.counters
    before, after = (scrape("", names, log) for log in (first, first + "more\n" + second))
    assert (before.draft_passes, before.draft_ms) == (51, 35.954)
    phase = delta(before, after)
    assert phase.draft_passes == 51
    assert phase.draft_ms == pytest.approx(39.176)
    # Before the first draft there is no such line, and an engine without one never tells.
    assert scrape("", names, "listening\n").draft_passes == 0
    assert scrape("", NAMES, first) == Counters()
    record = spec_record(replace(phase, steps=51, drafted=680, accepted=11), [], 15)
    assert record is not None
    assert (record.draft_passes, record.draft_ms) == (51, phase.draft_ms)
    silent = spec_record(Counters(51, 680, 11, draft_passes=0, draft_ms=0.0), [], 15)
    assert silent is not None
    assert silent.draft_ms is None
