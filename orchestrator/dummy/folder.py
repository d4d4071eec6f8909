"""A checkpoint folder without weights: config and tokenizer. Engines fill in their own values."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from orchestrator.dummy.place import Role, shape
from orchestrator.inputs.models import LoadedModel


def write_folder(path: Path, model: LoadedModel, role: Role) -> None:
    work = path.with_name(f".{path.name}.part")
    shutil.rmtree(work, ignore_errors=True)  # a killed run may have left it
    try:
        work.mkdir()
        files = {"config.json": shape(model, role)}
        if role == "target":
            files |= _tokenizer(model)
        for name, content in files.items():
            (work / name).write_text(json.dumps(content), encoding="utf-8")
        work.replace(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _tokenizer(model: LoadedModel) -> dict[str, Any]:
    """Every id is the word `<id>`, so that no engine meets an id without text."""
    tokens = model.model.tokens
    special = sorted({tokens.bos, *tokens.end, tokens.pad, tokens.mask})
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": [
                {"id": number, "content": f"<{number}>", **plain, "special": True}
                for number in special
            ],
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "model": {
                "type": "WordLevel",
                "vocab": {f"<{number}>": number for number in range(model.model.vocab_size)},
                "unk_token": f"<{tokens.pad}>",
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": f"<{tokens.bos}>",
            "eos_token": f"<{tokens.end[0]}>",
            "pad_token": f"<{tokens.pad}>",
            "model_max_length": model.model.max_context,
        },
    }
