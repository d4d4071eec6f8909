"""Convert the three checkpoints to bf16 GGUF with llama.cpp's own converter.

    python -m tools.tiny_muse.convert --llama-cpp SRC --model MODEL

SRC is a llama.cpp source tree (`vendor/llama.cpp` in the sdist of llama-cpp-python 0.3.36). The
converter recognises a tokenizer by a hash of what it does to a test text; ours uses GPT-2's
pre-tokenizer with an own vocabulary, so `get_vocab_base_pre` is replaced for this process only.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path


def convert(source: Path, checkpoint: Path, target: Path, out: Path) -> None:
    """One conversion; `target` gives a drafter its tokenizer."""
    sys.path.insert(0, str(source))
    sys.path.insert(0, str(source / "gguf-py"))
    from conversion import base

    base.TextModel.get_vocab_base_pre = lambda _self, _tokenizer: "gpt-2"
    arguments = [str(checkpoint), "--outfile", str(out), "--outtype", "bf16"]
    if checkpoint != target:
        arguments += ["--target-model-dir", str(target)]
    sys.argv = ["convert_hf_to_gguf.py", *arguments]
    runpy.run_path(str(source / "convert_hf_to_gguf.py"), run_name="__main__")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--llama-cpp", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    options = parser.parse_args()
    gguf = options.model / "gguf"
    gguf.mkdir(exist_ok=True)
    for name in ("target", "dflash", "dspark"):
        out = gguf / f"{name}-bf16.gguf"
        convert(options.llama_cpp, options.model / name, options.model / "target", out)


if __name__ == "__main__":
    main()
