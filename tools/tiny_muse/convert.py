"""Convert the three checkpoints to the bf16 GGUF files that are shipped.

    python -m tools.tiny_muse.convert --model MODEL

`museorch convert` does it; here the files only get the names the model file knows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

DRAFTERS = ("dflash", "dspark")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    model: Path = parser.parse_args().model
    gguf = model / "gguf"
    gguf.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=gguf) as out:
        argv = [sys.executable, "-m", "orchestrator.cli", "convert", str(model / "target")]
        argv += [word for name in DRAFTERS for word in ("--drafter", str(model / name))]
        subprocess.run([*argv, "--quant", "BF16", "--out", out], check=True)
        for name in ("target", *DRAFTERS):
            (Path(out) / f"{name}-BF16.gguf").replace(gguf / f"{name}-bf16.gguf")


if __name__ == "__main__":
    main()
