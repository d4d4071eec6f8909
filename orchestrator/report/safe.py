"""Strings from prompts, names, logs and servers, made inert for each place they are shown in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that steer a terminal, reorder text or show nothing."""
MARKDOWN = str.maketrans(
    {char: f"\\{char}" for char in r"\`*_[]#|~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
LINKS = re.compile(r"@|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""What makes forums mention a name or link an address by itself."""
LIST_START = re.compile(r"^(\s*\d*)([-+=.)])(?=\s|$)")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain(text: str, keep: str = "") -> str:
    """`text` with every character that is not visible as itself written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in HIDDEN else _escape(char)
        for char in text
    )


def inert(data: Any) -> Any:
    """A copy of JSON data with every string and key made plain."""
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, Mapping):
        return {plain(str(key)): inert(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [inert(item) for item in data]
    return data


def markdown(text: str) -> str:
    """`text` as literal text in Markdown, in a table cell too."""
    escaped = LIST_START.sub(r"\1\\\2", plain(text).translate(MARKDOWN))
    return LINKS.sub(lambda found: f"&#{ord(found[0])};", escaped)


def csv_cell(value: Any) -> Any:
    """A value that a spreadsheet shows and does not compute; numbers stay numbers."""
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA_STARTS):
        return f"'{value}"
    return value


def _escape(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )
