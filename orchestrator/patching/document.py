"""docs/patches.md, made from the declared patches and from what the engines' sources say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backends import BACKENDS
from backends.patch import Patch, Rule
from backends.sglang import patches as sglang
from backends.vllm import patches as vllm
from orchestrator.patching.place import PATCHES

CHECKED: Mapping[str, tuple[str, ...]] = {
    "vllm": ("0.26.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0"),
    "sglang": ("0.5.18", "0.5.20", "0.5.23"),
}
"""Releases whose sources the slow test reads."""

_NAMES = {name: BACKENDS[name].title for name in PATCHES}
_RULES: Mapping[str, Sequence[Rule]] = {"vllm": vllm.RULES, "sglang": sglang.RULES}
NO_TARGET = "no Muse Glimmer"

States = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Engine, then version, then patch id, to its state; NO_TARGET where the target is unknown."""

_HEAD = """\
# Patches

<!-- Made by `python -m tests.orchestrator.patching.table`; do not edit. -->

Some engine releases trip over Muse Glimmer's drafters. museorch carries each mend as data: exact
texts that must occur once, and what replaces them. In an environment that museorch made, a run
applies what it needs. In your own it stops and names the command, unless you give
`--patch-in-place`. Every result lists the patches in force with the hashes of the files.

```
museorch patch status                      # what is needed, applied, or fixed by the engine
museorch patch apply --for dspark --python /path/to/python
museorch patch verify
museorch patch revert                      # byte for byte
museorch patch dockerfile --base vllm/vllm-openai:muse-glimmer --for dflash
```

The journal and the original files are in `museorch-patches` beside the engine's packages. A run
that is cut off leaves a note there, and the next `apply` or `revert` puts the files back.

Where a checkpoint's `config.json` is the cause, museorch edits nothing: it serves an overlay, a
folder of links to the checkpoint with its own `config.json`. `museorch plan` shows the difference.
"""


def render(states: States) -> str:
    """The whole document."""
    parts = [_HEAD]
    for engine, patches in PATCHES.items():
        parts.append(f"## {_NAMES[engine]}\n")
        parts.append(_table(engine, states[engine]))
        parts += [_entry(patch) for patch in patches.values()]
        parts += [_rule(rule) for rule in _RULES[engine]]
    return "\n".join(parts)


def parse(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """The states that a document shows."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    engines = {title: engine for engine, title in _NAMES.items()}
    versions: list[str] = []
    engine = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            engine = engines[line.removeprefix("## ")]
        elif line.startswith("| patch |"):
            versions = cells[1:]
            found[engine] = {version: {} for version in versions}
        elif line.startswith("| ["):
            name = cells[0].split("]")[0].removeprefix("[")
            for version, state in zip(versions, cells[1:], strict=True):
                found[engine][version][name] = state
    return found


def _table(engine: str, states: Mapping[str, Mapping[str, str]]) -> str:
    versions = CHECKED[engine]
    lines = [f"| patch | {' | '.join(versions)} |", f"|---{'|---' * len(versions)}|"]
    for name in PATCHES[engine]:
        cells = [states[version][name] for version in versions]
        lines.append(f"| [{name}](#{name}) | {' | '.join(cells)} |")
    without = [v for v in versions if NO_TARGET in states[v].values()]
    if without:
        first = {"vllm": vllm.FIRST_NATIVE, "sglang": sglang.FIRST_NATIVE}[engine]
        lines.append(
            f"\n{_NAMES[engine]} {', '.join(without)} does not know Muse Glimmer. No patch set "
            f"makes it serve the model; the first release that does is {first}."
        )
    return "\n".join(lines) + "\n"


def _entry(patch: Patch) -> str:
    arms = ", ".join("plain" if kind == "none" else kind for kind in patch.speculation)
    link = f"<{patch.upstream}>" if patch.upstream.startswith("https") else patch.upstream
    lines = [
        f"### {patch.id}\n",
        f"{patch.title}.\n",
        f"- Why: {patch.why}",
        f"- Symptom: `{patch.symptom}`",
        f"- For: {arms or patch.only_for}, on {' and '.join(patch.devices)}",
        f"- Files: {', '.join(f'`{file}`' for file in patch.files)}",
        f"- Upstream: {link}",
    ]
    if patch.until:
        lines.append(f"- Not needed since: {patch.until}")
    return "\n".join(lines) + "\n"


def _rule(rule: Rule) -> str:
    return (
        f"### {rule.id}\n\n{rule.title}. No patch.\n\n"
        f"- Symptom: `{rule.symptom}`\n- Solved by: {rule.solution}\n"
    )
