"""No log, however broken, makes diagnose fail or shows what must not be shown."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.diagnose import diagnose_stream
from orchestrator.diagnose.patterns import PatternSet, find

EXAMPLES = yaml.safe_load(
    (Path(__file__).parent / "diagnose_examples.yaml").read_text(encoding="utf-8")
)
PIECES = [line.encode() for text in EXAMPLES.values() for line in text.splitlines()] + [
    b"Traceback (most recent call last):",
    b"(EngineCore pid=7) ERROR 11-30 10:00:00 [core.py:9] ",
    b"[2026-11-30 10:00:00 TP0] ",
    b"0.00.004.822 E ",
    b"  + Exception Group Traceback (most recent call last):",
    b"  | ",
    b"\x1b[31m",
    b"\x1b]0;",
    b"\xff\xfe",
    b"\r",
    b"\n",
    b"\x00",
    b" hf_0123456789abcdef ",
]
LOGS = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=40)), max_size=40)


@given(LOGS, st.sampled_from([b"\n", b"", b"\r\n"]))
@settings(max_examples=300, deadline=None)
def test_any_log_gives_a_safe_diagnosis(pieces: list[bytes], joint: bytes) -> None:
    result = diagnose_stream(io.BytesIO(joint.join(pieces)))

    shown = [result.summary or "", result.first_error or "", *(f.evidence for f in result.findings)]
    for text in shown:
        assert len(text) <= 1500
        assert "hf_0123456789abcdef" not in text
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in text)


@given(st.lists(st.text(alphabet="ab *^{n}7-.", min_size=1, max_size=8), max_size=20), st.data())
@settings(max_examples=300, deadline=None)
def test_a_set_of_patterns_finds_what_each_finds_alone(
    patterns: list[str], data: st.DataObject
) -> None:
    patterns = [p for p in patterns if p.strip("*^{n}") and not p.startswith("^*")]
    line = data.draw(st.text(alphabet="ab 7-.", max_size=30))

    together = dict(PatternSet(patterns * 3).fitting(line))

    alone = {i: find(p, line) for i, p in enumerate(patterns * 3)}
    assert together == {i: value for i, value in alone.items() if value is not None}
