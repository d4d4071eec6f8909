"""Peak memory of `museorch convert`, on tiny-muse with one layer and a feed-forward made wide.

    python -m tools.convert_memory DIR ROWS [ROWS ...]

ROWS x 256 is the largest tensor. Its values are the small model's, repeated: memory does not depend
on them. Needs 3.5 times the largest tensor in DIR for each checkpoint and as much for its files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

from orchestrator.gguf.stored import stored_tensors
from orchestrator.inputs.models import RECIPES

SOURCE = RECIPES / "tiny-muse" / "model" / "target"
QUANTISATIONS = ("BF16", "Q8_0", "Q4_K_M")
NARROW = 512
"""The small model's feed-forward size."""


def widened(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in SOURCE.iterdir():
        if path.suffix != ".safetensors":
            shutil.copyfile(path, folder / path.name)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = config["text_config"]
    text |= {"intermediate_size": rows, "num_hidden_layers": 1}
    for key in ("layer_types", "layer_rope_theta"):
        text[key] = text[key][:1]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    kept = {
        name: stored
        for name, stored in stored_tensors(SOURCE).items()
        if "vision" not in name and (".layers." not in name or ".layers.0." in name)
    }
    header: dict[str, Any] = {}
    offset = 0
    for name, stored in kept.items():
        shape = [rows if size == NARROW else size for size in stored.shape]
        size = 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    encoded = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as out:
        out.write(len(encoded).to_bytes(8, "little") + encoded)
        for name, stored in kept.items():
            with stored.file.open("rb") as file:
                file.seek(stored.offset)
                values = file.read(2 * prod(stored.shape))
            begin, end = header[name]["data_offsets"]
            times, rest = divmod(end - begin, len(values))
            for _ in range(times):
                out.write(values)
            out.write(values[:rest])


def main() -> None:
    place = Path(sys.argv[1])
    print("| largest tensor, MB | file | peak, MB | 1.5 x largest + 1 GB, MB |\n|---|---|---|---|")
    for rows in map(int, sys.argv[2:]):
        folder, out = place / f"wide-{rows}", place / f"wide-{rows}-gguf"
        widened(folder, rows)
        words = ["convert", str(folder), "--quant", ",".join(QUANTISATIONS), "--out", str(out)]
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator.cli", *words, "--json"],
            check=True,
            stdout=subprocess.PIPE,
        )
        largest = rows * 256 * 2
        for made in json.loads(done.stdout):
            peak, limit = made["made"]["peak_rss_bytes"], 1.5 * largest + 1e9
            name = made["origin"]["quantisation"]
            print(f"| {largest / 1e6:.0f} | {name} | {peak / 1e6:.0f} | {limit / 1e6:.0f} |")
        shutil.rmtree(folder)
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
