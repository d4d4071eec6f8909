"""docs/how-to-read.md says what its data say."""

from __future__ import annotations

import json
import re

import pytest

from tools import how_to_read
from tools.how_to_read import DOCS, FOLDER, KEPT, PAGE

KEPT_DATA = json.loads(KEPT.read_text(encoding="utf-8"))


def test_the_tables_are_those_of_the_data() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert how_to_read.fill(page, how_to_read.tables(KEPT_DATA)) == page


def test_every_table_has_its_place() -> None:
    page = PAGE.read_text(encoding="utf-8")
    places = [found[2] for found in how_to_read.PART.finditer(page)]
    assert sorted(places) == sorted(how_to_read.tables(KEPT_DATA))


def test_every_plot_is_shown_with_words() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = dict(re.findall(r"!\[([^\]]+)\]\(how-to-read/([\w-]+)\.svg\)", page))
    assert sorted(shown.values()) == sorted(how_to_read.plots(KEPT_DATA))
    for words in shown:
        assert len(words) > 40
    for name in shown.values():
        assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8")))
def test_links_lead_somewhere(link: str) -> None:
    assert (DOCS / link).is_file()


def test_what_the_text_says_of_the_measurement() -> None:
    """The sentences about the plots hold for the numbers beside them."""
    greedy = [row for row in KEPT_DATA["rows"] if row["mode"] == "greedy"]
    for drafter in how_to_read.DRAFTERS:
        mine = sorted(
            (row for row in greedy if row["drafter"] == drafter), key=lambda r: r["draft_tokens"]
        )
        lengths = [row["acceptance_length"] for row in mine]
        assert lengths == sorted(lengths)
        used = [row["utilisation"] for row in mine]
        assert used == sorted(used, reverse=True)
        first = [row["marginal"][0] for row in mine]
        assert (first[0] > first[-1]) == (drafter == "DSpark"), "DFlash's rises with K"
        sampled = next(
            row
            for row in KEPT_DATA["rows"]
            if (row["mode"], row["drafter"], row["draft_tokens"]) == ("temperature", drafter, 15)
        )
        assert mine[-1]["marginal"][0] - sampled["marginal"][0] > 0.1
