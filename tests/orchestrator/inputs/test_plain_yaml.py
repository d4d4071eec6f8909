"""Bare words mean what they say, and no file brings the reader down."""

from __future__ import annotations

from typing import Any

import pytest

from backends.errors import InputError
from orchestrator.inputs.plain_yaml import load


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        load(text, "a.yaml")
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-1_000", -1000),
        ("010", "010"),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        ("1.5e-3", 0.0015),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("0.32.0", "0.32.0"),
        ("2026-99-99", "2026-99-99"),
        ("'12'", "12"),
    ],
)
def test_a_bare_word(written: str, value: Any) -> None:
    data, lines = load(f"# first\na: {written}\n", "a.yaml")
    assert data == {"a": value}
    assert type(data["a"]) is type(value)
    assert lines[("a",)] == 2


def test_merged_and_repeated_fields_keep_their_lines() -> None:
    data, lines = load("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\nc: *a\n", "a.yaml")
    assert data == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}
    assert lines[("b", "y")] == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: !!int x", "a.yaml: not valid YAML: invalid literal"),
        ("a: !!int ''", "a.yaml: not valid YAML: "),
        ("a: !!bool x", "a.yaml: not valid YAML: "),
        ("a: !!timestamp x", "a.yaml:1: not valid YAML: could not determine a constructor"),
        ("a: !include b.yaml", "could not determine a constructor for the tag '!include'"),
        (f"a: {'9' * 5000}", "Exceeds the limit (4300 digits)"),
        (
            "a: 'b\nc: 1\n",
            "a.yaml:3: not valid YAML: found unexpected end of stream, in what begins",
        ),
        ("a: 1\nb: \a", "a.yaml:2: not valid YAML: the character '\\x07'."),
        ("a: 1\n3: 2", "a.yaml:2: a field's name is a word, not 3."),
        ("a: 1\n[1]: 2", "a.yaml:2: a field's name is a word, not a sequence."),
        ("a: 1\na: 2", 'a.yaml:2: field "a" is given twice.'),
        ("a: 1\n--- \nb: 2", "found another document"),
        ("a: &a [*a]", "YAML aliases form a loop."),
        ("[" * 5000, "YAML nested too deeply."),
    ],
)
def test_what_is_wrong_is_one_line(text: str, said: str) -> None:
    assert said in complaint(text)


def test_few_aliases_that_stand_for_billions() -> None:
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    text = "\n".join(["a0: &a0 [x]", *rows])
    assert complaint(text) == "a.yaml: holds more than 100,000 fields and values."
