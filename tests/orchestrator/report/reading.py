"""Reads a page the way a program would: its tables, its texts, and what could run."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from orchestrator.report import html
from orchestrator.report.facts import load
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory


def page(run: RunDirectory) -> tuple[str, dict[str, Any]]:
    """The page of a run and the result it shows."""
    result = build(run)
    return html.render(load(run, result)), result


@dataclass
class Table:
    caption: str = ""
    phase: str | None = None
    rows: list[list[tuple[str, float | None]]] = field(default_factory=list)
    """Text and unrounded number of every cell."""

    def cell(self, row: str, column: str) -> tuple[str, float | None]:
        heads = [text for text, _ in self.rows[0]]
        found = next(cells for cells in self.rows[1:] if cells[0][0] == row)
        return found[heads.index(column)]


class Reader(HTMLParser):
    """Raises nothing on bad HTML; what it did not understand is missing from the tables."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[Table] = []
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self._phase: str | None = None
        self._open: list[str] = []
        self._text = ""
        self._value: float | None = None
        self.feed(text)

    def table(self, caption: str, phase: str | None = None) -> Table:
        return next(t for t in self.tables if t.caption == caption and t.phase == phase)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self._open.append(tag)
        self.handlers += [name for name in given if name.startswith("on")]
        self.addresses += [str(given[name]) for name in ("src", "href") if name in given]
        if tag == "section":
            self._phase = given.get("data-phase")
        elif tag == "table":
            self.tables.append(Table(phase=self._phase))
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("td", "th", "caption"):
            self._text, self._value = "", None
        elif tag == "data":
            self._value = float(str(given["value"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "section":
            self._phase = None
        elif tag in ("td", "th"):
            self.tables[-1].rows[-1].append((self._text.strip(), self._value))
        elif tag == "caption":
            self.tables[-1].caption = self._text.strip()
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._text += data
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        elif data.strip():
            self.words.append(data.strip())


def page_file(run: RunDirectory) -> Path:
    path = run.path / "report.html"
    path.write_text(page(run)[0], encoding="utf-8")
    return path
