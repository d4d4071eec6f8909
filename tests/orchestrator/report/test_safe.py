from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from orchestrator.report.rows import to_csv
from orchestrator.report.safe import csv_cell, inert, markdown, plain

HOSTILE = [
    "<script>alert(1)</script>",
    "![x](javascript:alert(1))",
    "[link](https://example.org)",
    "https://example.org www.example.org",
    "a | b",
    "**bold** _it_ ~~no~~ `code` $x$",
    "# head",
    "- item",
    "1. item",
    "> quote",
    "@someone #12",
    "&lt;b&gt;",
    "back\\slash",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_the_text_and_nothing_else(text: str) -> None:
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    for source, wrap in ((markdown(text), "p"), (f"- {markdown(text)}", "li")):
        tokens = reader.parse(source)
        inline = [token for token in tokens if token.type == "inline"]
        assert len(inline) == 1
        assert {child.type for child in inline[0].children or []} <= {"text", "text_special"}
        shown = "".join(child.content for child in inline[0].children or [])
        assert shown == text
        assert wrap in {token.tag for token in tokens}


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_cells_stay_one_cell(text: str) -> None:
    source = f"| a | b |\n| --- | --- |\n| {markdown(text)} | 1 |"
    tokens = MarkdownIt("commonmark").enable("table").parse(source)
    assert [token.type for token in tokens].count("td_open") == 2


def test_markdown_mentions_and_links_nobody() -> None:
    assert "@" not in markdown("@someone")
    assert "://" not in markdown("https://example.org")
    assert "www." not in markdown("WWW.example.org".lower())


@given(st.text())
def test_plain_text_cannot_steer_a_terminal(text: str) -> None:
    assert all(char.isprintable() or char == "\u3000" or char.isspace() for char in plain(text))
    assert not set(plain(text)) & set("\x1b\r\n\t\x07\x9b\u202e\u2066\u200b")


def test_plain_keeps_ordinary_text() -> None:
    text = "llama.cpp mit Ümläuten, 日本語, emoji 🙂"
    assert plain(text) == text
    assert plain("a\nb", keep="\n") == "a\nb"


def test_inert_reaches_keys_and_lists() -> None:
    assert inert({"\x1b": ["\x07", 1.5, None, True]}) == {"\\x1b": ["\\x07", 1.5, None, True]}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "  =1", "\t=1"])
def test_csv_text_is_not_a_formula(text: str) -> None:
    cell = csv_cell(text)
    assert cell.startswith("'")


def test_csv_numbers_stay_numbers() -> None:
    rows = list(csv.reader(io.StringIO(to_csv([{"a": -1.5, "b": None, "c": "=x,\n", "d": "ok"}]))))
    assert rows == [["a", "b", "c", "d"], ["-1.5", "", "'=x,\\x0a", "ok"]]
