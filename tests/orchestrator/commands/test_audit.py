"""What `museorch audit` prints."""

from __future__ import annotations

from orchestrator.commands.audit import _table
from orchestrator.distribution.audit import Row
from orchestrator.distribution.fit import Fit, Power


def test_the_table_shows_what_the_verdict_rests_on_in_80_columns() -> None:
    def row(arm: str, positions: str, verdict: str, p: float, forced: float | None) -> Row:
        fit = Fit(1234, 123_456, -0.25, 0.001, 0.02, 17, None)
        return Row(arm, "t0.6", positions, verdict, p, 0.04, fit, Power(forced, None))

    text = _table(
        [
            row("llamacpp-dflash-q4_k_m-simulated", "first token", "as asked", 0.12, 0.163),
            row("llamacpp-dflash-q4_k_m-simulated", "later tokens", "differs", 2.1e-12, None),
            row("vllm-base", "first token", "as asked", 1.0, 1.0),
        ]
    )
    head, *lines = text.splitlines()
    assert max(map(len, text.splitlines())) <= 80
    assert head.split()[-4:] == ["p", "impossible", "found", "from"]
    assert lines[0] == "llamacpp-dflash-q4_k_m-simulated"
    assert lines[1].split()[-4:] == ["-0.2500", "0.12", "17", "16.3%"]
    assert lines[2].split()[-5:] == ["123456", "-0.2500", "2.1e-12", "17", "-"]
    assert lines[3] == "vllm-base"
    assert {len(line) for line in (head, lines[1], lines[2], lines[4])} == {len(head)}
