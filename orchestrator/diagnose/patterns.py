"""Patterns: plain text, compared without regard to case.

`*` stands for anything on the same line, `{n}` for a number, and a `^` in front ties the pattern to
the start of the message. There is nothing to backtrack into, so no pattern can be slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

_WILDCARD = re.compile(r"(\*|\{n\})")
_NUMBER = re.compile(r"[-+]?\d{1,18}(?:\.\d{1,18})?")
_WORD = re.compile(r"\w+")
_FEW = 12
"""Patterns up to which looking for each is cheaper than splitting the line into words."""


def find(pattern: str, low: str) -> float | None:
    """Whether `pattern` fits the lower-case line: the number at `{n}`, else 1.0; None if not."""
    parts = _parts(pattern)
    at, value, number_next = 0, 1.0, False
    if parts[0] == "^":
        parts = parts[1:]
        if not low.startswith(parts[0]):  # a wildcard after `^` is no use, and fits nothing
            return None
    for part in parts:
        if part == "*":
            number_next = False
        elif part == "{n}":
            found = _NUMBER.match(low, at)
            if not found:
                return None
            value, at, number_next = float(found[0]), found.end(), True
        else:
            start = low.find(part, at)
            if start < 0 or (number_next and start != at):
                return None
            at, number_next = start + len(part), False
    return value


def longest_literal(pattern: str) -> str:
    """The longest piece of text that a fitting line must hold."""
    literals = [part for part in _parts(pattern) if part not in ("^", "*", "{n}")]
    return max(literals, key=len, default="")


class PatternSet:
    """Many patterns, tried on many lines.

    Most lines hold no word of any pattern, and then none is tried.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._by_word: dict[str, list[int]] = {}
        self._rest: list[tuple[str, int]] = []
        for index, pattern in enumerate(self.patterns):
            word = _whole_word(pattern) if len(patterns) > _FEW else None
            if word:
                self._by_word.setdefault(word, []).append(index)
            else:
                self._rest.append((longest_literal(pattern), index))

    def fitting(self, low: str) -> Iterator[tuple[int, float]]:
        """Index and number (see `find`) of the patterns that fit the lower-case line."""
        likely = [index for literal, index in self._rest if literal in low]
        if self._by_word:
            words = self._by_word.keys() & _WORD.findall(low)
            likely += [index for word in words for index in self._by_word[word]]
        for index in sorted(likely):
            value = find(self.patterns[index], low)
            if value is not None:
                yield index, value

    def fits(self, low: str) -> bool:
        return any(True for _ in self.fitting(low))


@cache
def _parts(pattern: str) -> tuple[str, ...]:
    start = ("^",) if pattern.startswith("^") else ()
    rest = pattern[len(start) :].lower()
    return start + tuple(part for part in _WILDCARD.split(rest) if part)


def _whole_word(pattern: str) -> str | None:
    """The longest word that any fitting line must hold as a word of its own."""
    words = [
        word[0]
        for part in _parts(pattern)
        for word in _WORD.finditer(part)
        # At the edge of its part a word may be a piece of a longer one.
        if word.start() > 0 and word.end() < len(part) and part != "{n}"
    ]
    return max(words, key=len, default=None)
