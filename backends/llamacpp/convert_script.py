"""Runs llama.cpp's converter inside an environment that has torch and transformers.

    ENGINE_PYTHON -P convert_script.py SOURCE CHECKPOINT OUT [TARGET]

SOURCE is the converter's folder. TARGET, the target's checkpoint, gives a drafter its tokenizer.
Two things are changed, for this process only:

- The converter knows a tokenizer by a hash of what it does to a test text. An own byte-level BPE
  with GPT-2's splitting rule has a hash nobody registered, and is declared as what it is.
- The converter makes float32 of a whole tensor before it writes bf16. Tensors that are copied as
  they are go through in chunks of rows instead, so memory does not grow with the largest of them.
"""

import functools
import json
import runpy
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

CHUNK_BYTES = 8 << 20
"""Of bf16 rows held at a time."""


def main(source: Path, checkpoint: Path, out: Path, target: Path | None) -> None:
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    base = import_module("conversion.base")
    _declare_gpt2(base.TextModel, target or checkpoint)
    _copy_in_chunks(base)
    script = source / "convert_hf_to_gguf.py"
    sys.argv = [script.name, str(checkpoint), "--outfile", str(out), "--outtype", "bf16"]
    if target is not None:
        sys.argv += ["--target-model-dir", str(target)]
    runpy.run_path(str(script), run_name="__main__")


def _declare_gpt2(text_model: Any, tokenizer: Path) -> None:
    known: Callable[[Any, Any], str] = text_model.get_vocab_base_pre

    def pre_tokenizer(self: Any, loaded: Any) -> str:
        try:
            return known(self, loaded)
        except NotImplementedError:
            if splits_as_gpt2(tokenizer):
                return "gpt-2"
            raise

    text_model.get_vocab_base_pre = pre_tokenizer


def splits_as_gpt2(folder: Path) -> bool:
    """Whether the tokenizer splits by ByteLevel's own rule alone, which is GPT-2's."""
    found = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    rule = found.get("pre_tokenizer") or {}
    return (
        found.get("normalizer") is None
        and found["model"].get("type") == "BPE"
        and rule.get("type") == "ByteLevel"
        and rule.get("use_regex", True) is True
        and rule.get("add_prefix_space") is False
    )


def _copy_in_chunks(base: Any) -> None:
    numpy, torch, gguf = import_module("numpy"), import_module("torch"), import_module("gguf")
    chunked = getattr(gguf, "LazyChunkedTensor", None)
    if chunked is None:
        return
    lazy = base.LazyTorchTensor
    whole: Callable[[Any], Any] = lazy.numpy

    def rows(stored: Any, first: int, count: int) -> Any:
        width = stored.shape[1]
        values = numpy.fromfile(
            stored.data_range.filename,
            dtype=numpy.uint16,
            count=count * width,
            offset=stored.data_range.offset + first * width * 2,
        )
        return (values.astype(numpy.uint32) << 16).view(numpy.float32).reshape(count, width)

    def in_chunks(self: Any) -> Any:
        stored = _stored_bf16(self, torch.float32)
        if stored is None:
            return whole(self)
        height, width = stored.shape
        step = max(1, CHUNK_BYTES // (2 * width))
        chunks = [
            functools.partial(rows, stored, first, min(step, height - first))
            for first in range(0, height, step)
        ]
        return chunked(chunks, stored.shape, numpy.float32)

    lazy.numpy = in_chunks


def _stored_bf16(tensor: Any, float32: Any) -> Any:
    """Where `tensor` is a stored bf16 matrix made float32 and nothing else: how it is stored."""
    arguments: Any = getattr(tensor, "_args", ())
    if len(arguments) != 2 or arguments[1] is not float32:
        return None
    inner: Any = getattr(arguments[0], "_args", ())
    stored: Any = inner[0] if len(inner) == 1 else None
    plain = getattr(stored, "dtype", None) == "BF16" and hasattr(stored, "data_range")
    return stored if plain and len(stored.shape) == 2 else None


if __name__ == "__main__":
    paths = [Path(word) for word in sys.argv[1:]]
    main(paths[0], paths[1], paths[2], paths[3] if len(paths) > 3 else None)
