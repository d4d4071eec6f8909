"""Make text of unknown origin safe to show: no control characters, no secrets, one short line."""

from __future__ import annotations

import re
import unicodedata

# Escape sequences: CSI, then strings ended by BEL or ST (OSC, DCS, ...), then two-character ones.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]{0,4}[0-~]?"
    r"|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]?"
)
_HIDDEN = "***"
_NAMES = (
    r"(?:api[_-]?keys?|access[_-]?key|secret[_-]?key|hf[_-]?token|hugging[_-]?face[_-]?hub[_-]?token"
    r"|auth[_-]?token|access[_-]?token|token|secret|password|passwd|pwd|signature|authorization)"
)
_JOINT = (
    r"(?:['\"]?\s{0,3}[=:]\s{0,3}[\[(]?|(?<=[-_]key) |(?<=--token) |(?<=[-_]token) |(?<=password) )"
)
_NOT_SECRET = r"(?!(?:none|null|true|false|bearer|basic|\d{1,8})\b|\*\*\*)"
_VALUE = r"[^\s'\",)\]&;<>|]{4,}"
_MORE = rf"(?:['\"], ['\"]{_VALUE}){{0,50}}"
_SECRETS = (
    (
        re.compile(r"\b(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[\w-]{8,}"),
        r"\1" + _HIDDEN,
    ),
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), r"\1" + _HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{0,2000})?"), _HIDDEN),
    (re.compile(r"(\b(?:bearer|basic)\s{1,4})[\w.~+/=-]{6,}", re.I), r"\1" + _HIDDEN),
    (re.compile(r"(://[^\s/:@]{0,200}):[^\s/@]{1,200}@"), r"\1:" + _HIDDEN + "@"),
    # name=value, --name value, 'name': ['value'], "name": "value"; numbers are counts, not secrets.
    (
        re.compile(rf"((?<![A-Za-z]){_NAMES}{_JOINT}['\"]?){_NOT_SECRET}{_VALUE}{_MORE}", re.I),
        r"\1" + _HIDDEN,
    ),
)


class _Visible(dict[int, str | None]):
    """For `str.translate`: white space becomes a space, what cannot be seen goes."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn")
        self[code] = " " if char.isspace() else None if hidden else char
        return self[code]


_VISIBLE = _Visible()


def clean(text: str) -> str:
    """`text` without escape sequences, control, format and invisible characters, on one line."""
    if text.isascii() and text.isprintable():
        return text
    return _ESCAPE.sub("", text).translate(_VISIBLE)


def mask(text: str) -> str:
    """`text` with tokens, keys and passwords replaced by `***`."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def shorten(text: str, limit: int = 300) -> str:
    """`text` in at most `limit` characters, the cut marked."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def safe(text: str, limit: int = 300) -> str:
    """Untrusted text, ready for a terminal, a file or a message."""
    return shorten(mask(clean(text)), limit)
