"""Exact text edits on file contents, in memory."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable

from backends.errors import PatchError
from backends.patch import Edit


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def occurrences(content: bytes, text: str) -> int:
    return content.count(text.encode())


def edited(content: bytes, edit: Edit) -> bytes:
    """`content` after `edit`. PatchError unless the text to replace is there exactly once."""
    count = occurrences(content, edit.find)
    if count != 1:
        raise PatchError(
            f"the text from {first_line(edit)} occurs {count} times, and must occur once.",
            where=edit.file,
            fix="This engine version needs another patch; nothing was changed.",
        )
    return content.replace(edit.find.encode(), edit.replace.encode())


def replayed(original: bytes, edits: Iterable[Edit]) -> bytes:
    for edit in edits:
        original = edited(original, edit)
    return original


def check_syntax(file: str, before: bytes, after: bytes) -> None:
    """PatchError where an edit breaks a Python file that was whole."""
    if file.endswith(".py") and _parses(before) and not _parses(after):
        raise PatchError("the patched file would not be valid Python.", where=file)


def first_line(edit: Edit) -> str:
    lines = [line.strip() for line in edit.find.splitlines() if line.strip()]
    return repr(lines[0])


def _parses(content: bytes) -> bool:
    try:
        ast.parse(content)
    except (SyntaxError, ValueError):
        # Also true of syntax newer than museorch's own Python, which is then left unchecked.
        return False
    return True
