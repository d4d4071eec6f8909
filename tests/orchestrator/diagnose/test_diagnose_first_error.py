"""The first cause, in the forms in which engines report their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.diagnose import diagnose, first_cause

CHAIN = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    first()
LookupError: the cause

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 2, in <module>
    second()
RuntimeError: the end
"""
VLLM = """\
(EngineCore pid=7) ERROR 11-30 10:00:00 [core.py:9] EngineCore failed to start.
(APIServer pid=1) INFO 11-30 10:00:00 [utils.py:1] waiting
(EngineCore pid=7) ERROR 11-30 10:00:00 [core.py:9] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-30 10:00:00 [core.py:9]   File "b.py", line 1, in f
(Worker pid=8) ERROR 11-30 10:00:00 [work.py:9] not the exception: of this traceback
(EngineCore pid=7) ERROR 11-30 10:00:01 [core.py:9]     raise ValueError("the cause")
(EngineCore pid=7) ERROR 11-30 10:00:01 [core.py:9] ValueError: the cause
Traceback (most recent call last):
  File "c.py", line 1, in <module>
RuntimeError: Engine core initialization failed. See root cause above.
"""
SGLANG = """\
[2026-11-30 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "b.py", line 1, in f
    raise ValueError("the cause")
[2026-11-30 10:00:00 TP1] still here
ValueError: the cause

[2026-11-30 10:00:00] Received sigquit from a child process. It usually means the child failed.
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "b.py", line 1, in f
    | ValueError: the cause
    +------------------------------------
"""
TERMINATE = """\
terminate called after throwing an instance of 'std::runtime_error'
  what():  the cause
Aborted (core dumped)
"""
HANDLED = """\
WARNING 11-30 10:00:00 [a.py:1] Traceback (most recent call last):
WARNING 11-30 10:00:00 [a.py:1]   File "b.py", line 1, in f
WARNING 11-30 10:00:00 [a.py:1] ImportError: an optional package
ERROR 11-30 10:00:00 [b.py:1] the cause
"""
PYDANTIC = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
num_draft
  Input should be a number
"""


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (CHAIN, "LookupError: the cause"),
        (VLLM, "ValueError: the cause"),
        (SGLANG, "ValueError: the cause"),
        (GROUP, "ValueError: the cause"),
        (TERMINATE, "what(): the cause"),
        (HANDLED, "the cause"),
        (
            'Traceback (most recent call last):\n  File "a"\n    assert size > 0\nAssertionError\n',
            "AssertionError at `assert size > 0`",
        ),
        (
            "Traceback (most recent call last):\n" + PYDANTIC,
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for"
            " SpeculativeConfig num_draft Input should be a number",
        ),
        ("0.00.001 I fine\n0.00.004.822 E load: the cause\n", "load: the cause"),
        ("/src/a.cpp:7: GGML_ASSERT(x) failed\n", None),
        ("ERROR:    the cause\n", "the cause"),
        ("prog sub: error: the cause\n", "prog sub: error: the cause"),
        ("[rank0]:[E1130 10:00:00.000000000 a.cpp:7] the cause\n", "the cause"),
        ("Nov 30 10:00:00 host serve[7]: 0.00.004.822 E load: the cause\n", "load: the cause"),
        ("web-1  | 2026-11-30T10:00:00.000Z ERROR: the cause\n", "the cause"),
        ("RuntimeError: Engine core initialization failed.\n", None),
        ("error rate 0.1\nINFO: error: none\nerrors: 0\n", None),
        ("0.00.004.822 W load: error: only a warning\n", None),
    ],
)
def test_the_first_cause(log: str, cause: str | None, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(log, encoding="utf-8")

    if cause is None:
        assert diagnose(path).first_error in (None, log.strip())
    else:
        assert first_cause(path) == cause


def test_the_cause_is_safe_to_show(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(
        b"error: \x1b]0;owned\x07\x1b[2Jtoken hf_0123456789abcdef refused " + b"y" * 9000
    )

    cause = first_cause(path) or ""

    assert cause.startswith("error: token hf_*** refused yyy")
    assert len(cause) == 300
