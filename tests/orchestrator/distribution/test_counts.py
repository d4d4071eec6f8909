from __future__ import annotations

from orchestrator.distribution.counts import Context, contexts
from orchestrator.load.sample import Sample

END = (1, 2)


def sample(prompt: str, *ids: int, finish: str = "length") -> Sample:
    return Sample(
        "r", prompt, "a", "t1.0", 1, 1, 0, 3, 0, ((1, ids),), 2, finish, None, None, None, None
    )


def test_counts_next_tokens_by_prompt_and_prefix() -> None:
    found = contexts([sample("p", 5, 6), sample("p", 5, 7), sample("q", 8, 6)], END)
    assert found == (
        Context("p", (), ((5, 2),)),
        Context("q", (), ((8, 1),)),
        Context("p", (5,), ((6, 1), (7, 1))),
        Context("q", (8,), ((6, 1),)),
    )
    assert found[0].total == 2


def test_a_stop_counts_once_whether_or_not_the_engine_sends_the_end_token() -> None:
    sent = contexts([sample("p", 5, 2, finish="stop")], END)
    unsent = contexts([sample("p", 5, finish="stop")], END)
    assert sent == unsent == (Context("p", (), ((5, 1),)), Context("p", (5,), ((1, 1),)))


def test_nothing_counts_after_an_end_token() -> None:
    assert contexts([sample("p", 2, 7, 7)], END) == (Context("p", (), ((1, 1),)),)
