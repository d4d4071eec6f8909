"""What quantising tiny-muse costs: quality of the target, acceptance by what is quantised.

    python -m tools.quantisation DIR          convert, serve, measure; everything goes into DIR
    python -m tools.quantisation DIR --keep   then also fill in docs/measurements

Results that are there are kept, so a second run goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from orchestrator.comparing.interval import pooled_ratio
from orchestrator.environments.engines import resolve
from orchestrator.gguf.contents import read as read_gguf
from orchestrator.gguf.quality import distribution, served, text_tokens
from orchestrator.inputs.models import RECIPES
from orchestrator.load.sample import read
from orchestrator.rundir import read_json

MUSEORCH = [sys.executable, "-m", "orchestrator.cli"]
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "measurements"
PREFIXES = 119
EXACT_ENV = {"GGML_CPU_TILED_MM": "0"}
EXACT_ARGS = ["--no-repack"]
"""Switches off the CPU kernels for K-quants that sum in another order for several columns than for
one. A drafter then cannot change greedy output, so a difference means a fault."""
TEXT = ROOT / "orchestrator" / "guard.py"
QUANTISATIONS = {"bf16": "BF16", "q8_0": "Q8_0", "q6_k": "Q6_K", "q4_k_m": "Q4_K_M"}
COARSER = [name for name in QUANTISATIONS if name != "bf16"]
FAMILIES = ("dflash", "dspark")
Counts = dict[str, tuple[int, int]]
"""Prompt to (tokens of speculative steps, steps)."""


def plans() -> dict[str, tuple[list[str], list[str], list[str]]]:
    """Name of a run to: target quantisations, drafter files there are, what is compared.

    A recipe takes a drafter in its target's quantisation where there is one, else the first.
    """
    every = list(QUANTISATIONS)
    return {
        "both": (every, every, ["none", *FAMILIES]),
        "target": (COARSER, ["bf16"], [*FAMILIES]),
        **{
            f"drafter-{name.replace('_', '-')}": (["bf16"], [name], [*FAMILIES]) for name in COARSER
        },
    }


def write(folder: Path, name: str) -> Path:
    """The recipe of a run, and a model file that names the converted files."""
    targets, drafters, speculation = plans()[name]
    model = yaml.safe_load((RECIPES / "models" / "tiny-muse.yaml").read_text(encoding="utf-8"))

    def artefacts(stem: str, names: list[str]) -> list[dict[str, str]]:
        return [
            {
                "format": "gguf",
                "quantisation": quantisation,
                "path": f"gguf/{stem}-{QUANTISATIONS[quantisation]}.gguf",
            }
            for quantisation in names
        ]

    model["name"] = f"tiny-muse-{name}"
    model["tokenizer"] = str(RECIPES / model["tokenizer"])
    model["prompts"] = {key: str(RECIPES / path) for key, path in model["prompts"].items()}
    model["target"]["artefacts"] = artefacts("tiny-muse", targets)
    for family in FAMILIES:
        model["drafters"][family]["artefacts"] = artefacts(f"tiny-muse-{family}", drafters)
    recipe = {
        "schema": 1,
        "name": f"quantisation-{name}",
        "model": f"{name}.model.yaml",
        "device": "cpu",
        "workload": {
            "prompts": "code",
            "count": 40,
            "output_tokens": 128,
            "stop": "natural",
            "modes": ["greedy"],
            "concurrency": 1,
            "warmup": 1,
            "seed": 20261130,
        },
        "serve": {"context_length": 1024, "kv_dtype": "bf16", "threads": 1},
        "arms": [
            {
                "backend": "llamacpp",
                "speculation": speculation,
                "quantisation": targets,
                "engine_args": EXACT_ARGS,
                "env": EXACT_ENV,
            },
        ],
        "order": {"bookend": False},
        "allow": ["quantisation", "drafter"],
    }
    (folder / f"{name}.model.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def measure(folder: Path) -> None:
    convert = ["convert", "tiny-muse", "--drafter", "dflash", "--drafter", "dspark"]
    quant = ["--quant", ",".join(QUANTISATIONS.values()), "--out", str(folder / "gguf")]
    subprocess.run([*MUSEORCH, *convert, *quant], check=True)
    quality = folder / "quality.json"
    if not quality.exists():
        files = [str(folder / "gguf" / f"tiny-muse-{q}.gguf") for q in QUANTISATIONS.values()]
        words = [*files, "--text", str(TEXT), "--threads", "1", "--device", "cpu", "--json"]
        done = subprocess.run(
            [*MUSEORCH, "gguf", "quality", *words], check=True, capture_output=True, text=True
        )
        rows = [{**row, "file": Path(row["file"]).name} for row in json.loads(done.stdout)]
        quality.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if not (folder / "batches.json").exists():
        text = json.dumps(batches(folder), indent=1)
        (folder / "batches.json").write_text(text + "\n", encoding="utf-8")
    for name in plans():
        if not (folder / f"run-{name}" / "result.json").exists():
            recipe = write(folder, name)
            out = ["--out", str(folder / f"run-{name}")]
            # 1: arms whose speeds cannot be compared; what is read here is acceptance.
            status = subprocess.call([*MUSEORCH, "compare", str(recipe), *out, "--quiet"])
            assert status in (0, 1), recipe


def batches(folder: Path) -> list[dict[str, Any]]:
    """Distributions after a prompt computed at once, against those computed token by token."""
    rows = []
    for name, exact in product(QUANTISATIONS.values(), (False, True)):
        # The server inherits these; LLAMA_ARG_REPACK=0 is --no-repack.
        for key, value in {**EXACT_ENV, "LLAMA_ARG_REPACK": "0"}.items():
            os.environ.pop(key, None)
            if exact:
                os.environ[key] = value
        contents = read_gguf(folder / "gguf" / f"tiny-muse-{name}.gguf")
        vocabulary = contents.headers.tokens
        assert vocabulary is not None
        logs = folder / "batches" / f"{name}-{exact}"
        with served(contents, resolve("llamacpp"), logs, PREFIXES + 1, 1) as server:
            ids = text_tokens(server, TEXT.read_text("utf-8"), PREFIXES + 1)
            prefixes = [ids[:end] for end in range(1, len(ids))]
            single = [distribution(server, p, vocabulary) for p in prefixes]
            whole = [distribution(server, p, vocabulary, cached=False) for p in prefixes]
        largest = [
            float(np.abs(np.exp(a) - np.exp(b)).max()) for a, b in zip(single, whole, strict=True)
        ]
        rows.append(
            {
                "target": name,
                "exact": exact,
                "positions": len(largest),
                "differing": sum(value > 0 for value in largest),
                "largest": max(largest),
            }
        )
    return rows


def counts(run: Path, arm: str) -> Counts:
    found: Counts = {}
    for sample in read(run / "arms" / arm / "1" / "samples.jsonl"):
        told = sample.server
        if told is not None and told.steps and told.accepted is not None:
            found[sample.prompt_id] = (told.steps + told.accepted, told.steps)
    return found


def cell(family: str, run: Path, arm: str, base: Counts) -> dict[str, Any]:
    """tau of an arm, and its ratio to all in bf16, paired by prompt."""
    own = counts(run, arm)
    shared = sorted(own.keys() & base.keys())
    ratio = pooled_ratio([(*own[prompt], *base[prompt]) for prompt in shared])
    tokens, steps = (sum(column) for column in zip(*own.values(), strict=True))
    return {
        "family": family,
        "tau": tokens / steps,
        "prompts": len(shared),
        "ratio": ratio.value,
        "interval": [ratio.low, ratio.high],
    }


def acceptance(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for family in FAMILIES:
        both = folder / "run-both"
        base = counts(both, f"llamacpp-{family}-bf16")
        for name in QUANTISATIONS:
            row = cell(family, both, f"llamacpp-{family}-{name}", base)
            rows.append({**row, "target": name, "drafter": name})
            if name == "bf16":
                continue
            row = cell(family, folder / "run-target", f"llamacpp-{family}-{name}", base)
            rows.append({**row, "target": name, "drafter": "bf16"})
            run = folder / f"run-drafter-{name.replace('_', '-')}"
            row = cell(family, run, f"llamacpp-{family}", base)
            rows.append({**row, "target": "bf16", "drafter": name})
    return rows


def tables(folder: Path) -> str:
    """Markdown."""
    lines = ["| target | bytes | read per token | perplexity | top-1 | divergence, nats |"]
    lines.append("|---|---|---|---|---|---|")
    for row in read_json(folder / "quality.json"):
        path = folder / "gguf" / row["file"]
        command = [*MUSEORCH, "gguf", "show", str(path), "--json"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        lines.append(
            f"| {path.stem.removeprefix('tiny-muse-')} | {told['bytes']:,} | "
            f"{told['bytes_per_token']:,} | {row['perplexity']:.3f} | "
            f"{row['top1_agreement']:.1%} | {row['divergence']:.4f} |"
        )
    lines += [
        "",
        "| drafter | target in | drafter in | tau | against all in bf16 | 95 % interval |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for row in acceptance(folder):
        lines.append(_line(row))
    lines += ["", "| target | kernels | positions that differ | largest difference |"]
    lines.append("|---|---|---|---|")
    for row in read_json(folder / "batches.json"):
        kernels = "exact" if row["exact"] else "default"
        shown = f"{row['differing']} of {row['positions']} | {row['largest']:.3f}"
        lines.append(f"| {row['target']} | {kernels} | {shown} |")
    lines += ["", "| target and drafter | equal to plain, DFlash | equal to plain, DSpark |"]
    lines.append("|---|---|---|")
    audit = read_json(folder / "run-both" / "result.json")["audit"]["greedy"]
    equal = {(row["a"], row["b"]): f"{row['identical']} of {row['prompts']}" for row in audit}
    for name, title in QUANTISATIONS.items():
        cells = [equal[f"llamacpp-{f}-{name}", f"llamacpp-base-{name}"] for f in FAMILIES]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    low, high = row["interval"]
    same = row["target"] == row["drafter"] == "bf16"
    against = "— | —" if same else f"{row['ratio']:.3f} | {low:.3f} to {high:.3f}"
    name = {"dflash": "DFlash", "dspark": "DSpark"}[row["family"]]
    target, drafter = (QUANTISATIONS[row[key]] for key in ("target", "drafter"))
    return f"| {name} | {target} | {drafter} | {row['tau']:.3f} | {against} |"


def keep(folder: Path) -> None:
    """The results, without white space, beside the page; and the tables in it."""
    place = DOCS / "tiny-muse-quantisation"
    place.mkdir(parents=True, exist_ok=True)
    for name in plans():
        result = read_json(folder / f"run-{name}" / "result.json")
        text = json.dumps(result, separators=(",", ":"))
        (place / f"{name}.result.json").write_text(text + "\n", encoding="utf-8")
    for name in ("quality.json", "batches.json"):
        (place / name).write_text((folder / name).read_text("utf-8"), "utf-8")
    page = DOCS / "tiny-muse-quantisation.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition("<!-- made -->\n")
    after = rest.partition("<!-- end -->")
    page.write_text(f"{before}{begin}\n{tables(folder)}\n{after[1]}{after[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    measure(folder)
    if options.keep:
        keep(folder)
    print(tables(folder))


if __name__ == "__main__":
    main()
