"""Write the training text and the held-out prompts.

    python -m tools.tiny_muse.corpus --stdlib LIB/python3.12 --out BUILD --prompts PROMPTS

Two parts: the standard library of CPython 3.12 (PSF licence), cut into chunks at definitions, and
conversations from the seeded generator in this folder (ours, Apache-2.0). One file in sixteen of
the library, chosen by the hash of its path, is held out; code prompts come from those files only. A
question that occurs in a chat prompt occurs in no training conversation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from . import code_tasks, small_tasks
from .dialogues import dialogue, long_request

SEED = 20260
_SKIPPED = {
    "site-packages", "encodings", "pydoc_data",
    "__phello__", "lib-dynload", "ensurepip", "__pycache__",
}  # fmt: skip
_BOUNDARY = re.compile(r"^(?:    )?(?:def |class |async def |@)")
_CHUNK_CHARS = (1000, 2100)


def library_files(root: Path) -> Iterator[tuple[str, str]]:
    """Relative path and text of every usable source file, in a fixed order."""
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if _SKIPPED & set(relative.parts) or relative.parts[0].startswith("config-"):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        if text.isascii() and len(text) > 400:
            yield relative.as_posix(), text


def is_held_out(relative: str) -> bool:
    return hashlib.sha256(relative.encode()).digest()[0] % 16 == 3


def chunks(text: str) -> Iterator[str]:
    """Cut a source file before definitions into pieces of about 1,000 to 2,100 characters."""
    low, high = _CHUNK_CHARS
    lines: list[str] = []
    size = 0
    for line in text.splitlines():
        starts = _BOUNDARY.match(line) and not (lines and lines[-1].lstrip().startswith("@"))
        if (starts and size >= low) or size + len(line) > high:
            yield _clean(lines)
            lines, size = [], 0
        lines.append(line.rstrip())
        size += len(line) + 1
    if size > 100:
        yield _clean(lines)


def _clean(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n") + "\n"


def _is_table(text: str) -> bool:
    """Data tables (numbers, quoted names) teach a small model to loop."""
    letters = sum(character.isalpha() or character in " \n_" for character in text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return letters < 0.66 * len(text) or len(set(lines)) < 0.7 * len(lines)


def code_prompts(held_out: list[str], rng: Random, count: int, chars: tuple[int, int]) -> list[str]:
    """Beginnings of held-out chunks that start with a definition, cut at a line end."""
    found: list[str] = []
    candidates = [text for text in held_out if _BOUNDARY.match(text) and not _is_table(text)]
    rng.shuffle(candidates)
    for text in candidates:
        limit = rng.randint(*chars)
        cut = text.rfind("\n", 0, limit) + 1
        if chars[0] <= cut < len(text) - 200:
            found.append(text[:cut])
        if len(found) == count:
            break
    return found


def chat_prompts(rng: Random, count: int) -> list[str]:
    makers = [code_tasks.write_function, code_tasks.explain_function, *small_tasks.SMALL]
    return [
        (long_request(rng) if i % 2 else makers[i // 2 % len(makers)](rng)).question
        for i in range(count)
    ]


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--stdlib", type=Path, required=True, help="lib/python3.12 of CPython 3.12.1"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--dialogues", type=int, default=32_000)
    options = parser.parse_args()

    train: list[str] = []
    held_out: list[str] = []
    for relative, text in library_files(options.stdlib):
        if not is_held_out(relative):
            train += [chunk for chunk in chunks(text) if not _is_table(chunk)]
        elif not {"test", "tests", "idle_test"} & set(Path(relative).parts):
            held_out += [chunk for chunk in chunks(text) if not _is_table(chunk)]

    rng = Random(SEED)
    code = code_prompts(held_out, rng, 40 + 16, (230, 430))
    chat = chat_prompts(rng, 40)
    demo_chat = list(dict.fromkeys(long_request(rng).question for _ in range(16)))
    reserved = {*chat, *demo_chat}

    def as_chat(name: str, questions: list[str]) -> list[dict[str, Any]]:
        return [
            {"id": f"{name}-{i:02}", "messages": [{"role": "user", "content": question}]}
            for i, question in enumerate(questions)
        ]

    def as_code(name: str, texts: list[str]) -> list[dict[str, Any]]:
        return [{"id": f"{name}-{i:02}", "text": text} for i, text in enumerate(texts)]

    mixed = [
        row
        for pair in zip(
            as_chat("demo-chat", demo_chat), as_code("demo-code", code[40:]), strict=True
        )
        for row in pair
    ]
    hashes = {
        "chat.jsonl": _jsonl(options.prompts / "chat.jsonl", as_chat("chat", chat)),
        "code.jsonl": _jsonl(options.prompts / "code.jsonl", as_code("code", code[:40])),
        "demo.jsonl": _jsonl(options.prompts / "demo.jsonl", mixed),
    }

    talks: list[dict[str, Any]] = []
    while len(talks) < options.dialogues:
        talk = dialogue(rng)
        if not reserved & set(talk.questions()):
            talks.append({"text": talk.text()})
    hashes["code-train"] = _jsonl(options.out / "code.jsonl", [{"text": text} for text in train])
    hashes["chat-train"] = _jsonl(options.out / "chat.jsonl", talks)
    hashes["code-held-out"] = _jsonl(
        options.out / "code-held-out.jsonl", [{"text": text} for text in held_out]
    )
    (options.out / "hashes.json").write_text(json.dumps(hashes, indent=1) + "\n")
    print(json.dumps(hashes, indent=1))
    print(f"code {len(train)} chunks, held out {len(held_out)}, dialogues {len(talks)}")


if __name__ == "__main__":
    main()
