"""docs/diagnose.md, made from the catalogue: `python -m orchestrator.diagnose.page`."""

from __future__ import annotations

from backends import BACKENDS
from orchestrator.diagnose.catalogue import Measured, Signature, catalogue

_TITLES = {None: "Every engine"} | {name: one.title for name, one in BACKENDS.items()}
_HEAD = """# What a failed server's log tells

<!-- Made by `python -m orchestrator.diagnose.page > docs/diagnose.md`; do not edit. -->

`museorch diagnose LOG` reads a server's log and names the first cause, not the last line. Give it
a run directory and it reads the log of every arm; with `-` it reads what is piped in. A failed
start shows the same in one line. It exits with 1 when a log holds an error that it does not know,
and then shows the first one.

Causes come first, in the order of the log. A *consequence* only reports that something else
failed. A *warning* is a server that runs, but not as meant. In a pattern, `*` stands for anything
on the line, `{n}` for a number, and `^` for the start of the message.

Escape sequences in a log are dropped and secrets are masked. Of a log larger than 8 MiB the first
and the last 4 MiB are read, and of very many lines the first and the last.

Some faults leave no trace in a log: a drafter that fits badly, prompts that differ, a cache that
one arm has and the other has not. Those are what the match certificate, the audits and the
acceptance numbers of a run are for.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for file in catalogue():
        parts.append(f"## {_TITLES[file.engine]}\n")
        parts += [_entry(signature) for signature in file.signatures]
    return "\n".join(parts)


def _entry(signature: Signature) -> str:
    level = "" if signature.level == "error" else f" ({signature.level})"
    lines = [f"### {signature.title}{level}\n", f"`{signature.id}`. {signature.cause}\n"]
    lines.append(f"What to do: {signature.fix}\n")
    lines += [f"- log: {_pattern(pattern)}" for pattern in signature.patterns]
    lines += [f"- and: `` {text} ``" for text in signature.requires]
    lines += [f"- and not: `` {text} ``" for text in signature.unless]
    if signature.versions:
        lines.append(f"- versions: {signature.versions}")
    lines.append(f"- source: {signature.source}\n")
    return "\n".join(lines)


def _pattern(pattern: Measured | str) -> str:
    if isinstance(pattern, str):
        return f"`` {pattern} ``"
    bounds = []
    if pattern.at_least is not None:
        bounds.append(f"n at least {pattern.at_least:g}")
    if pattern.at_most is not None:
        bounds.append(f"n at most {pattern.at_most:g}")
    often = "" if pattern.times == 1 else f", on at least {pattern.times} lines and on most"
    return f"`` {pattern.text} ``, {' and '.join(bounds)}{often}"


if __name__ == "__main__":
    print(page(), end="")
