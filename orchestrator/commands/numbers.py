"""A list of whole numbers as an option: 1,4,16."""

from __future__ import annotations


def numbers(text: str | None, option: str) -> list[int] | None:
    """None where the option was not given. Raises InputError for anything but numbers above 0."""
    from backends.errors import InputError

    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise InputError(f'"{text}" is no list of numbers such as 1,4,15.', where=option)
    return [int(word) for word in words]
