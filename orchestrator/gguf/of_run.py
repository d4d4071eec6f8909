"""The quality of a recipe's GGUF targets, measured after its arms and kept with the run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from backends.errors import EngineError, InputError
from orchestrator.inputs.document import Places, read_text
from orchestrator.inputs.recipe import Recipe
from orchestrator.planning.plan import PlannedArm
from orchestrator.rundir import RunDirectory, read_json, write_json

REFERENCE = "bf16"


def targets(planned: Sequence[PlannedArm]) -> dict[str, PlannedArm]:
    """llama.cpp's arms by quantisation of their target, one each; bf16 first where there is one."""
    found: dict[str, PlannedArm] = {}
    for item in planned:
        if item.arm.backend == "llamacpp":
            found.setdefault(item.arm.target.quantisation, item)
    return dict(sorted(found.items(), key=lambda pair: pair[0] != REFERENCE))


def check(recipe: Recipe, document: Places, planned: Sequence[PlannedArm], near: Path) -> None:
    """Raises InputError for a text that is not there, or nothing to compare."""
    if recipe.quality is None:
        return
    if len(targets(planned)) < 2:
        raise InputError(
            "needs llama.cpp arms whose targets differ in quantisation.",
            where=document.where(("quality",)),
            fix="Add one, for instance quantisation: [bf16, q4_k_m], or leave quality out.",
        )
    read_text(near / recipe.quality.text)


def measure(
    recipe: Recipe,
    planned: Sequence[PlannedArm],
    near: Path,
    run: RunDirectory,
    on_progress: Callable[[str], None],
) -> None:
    """Write run.quality_file, unless a whole one is there. A failure is kept as its reason.

    Nothing where only some of the recipe's arms run, and those have nothing to compare.
    """
    found = targets(planned)
    if recipe.quality is None or len(found) < 2 or _finished(run):
        return
    from orchestrator.gguf.quality import quality

    path = near / recipe.quality.text
    text = read_text(path)
    (reference, first), *others = found.items()
    assert first.engine is not None, "require_runnable has been called"
    result: dict[str, Any] = {
        "text": path.name,
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "reference": reference,
        "reason": None,
        "rows": [],
    }
    try:
        rows = quality(
            Path(first.arm.target.path),
            [Path(item.arm.target.path) for _, item in others],
            text,
            engine=first.engine,
            folder=run.path / "quality",
            tokens=recipe.quality.tokens,
            threads=recipe.serve.threads,
            watch=lambda name, done, total: on_progress(f"quality of {name}: {done} of {total}"),
        )
        for name, row in zip(found, rows, strict=True):
            result["rows"].append(
                {
                    "quantisation": name,
                    "bytes": row.file.stat().st_size,
                    "positions": row.positions,
                    "perplexity": row.perplexity,
                    "top1_agreement": row.top1_agreement,
                    "divergence": row.divergence,
                }
            )
    except (EngineError, InputError) as error:
        result["reason"] = error.message
    write_json(run.quality_file, result)


def _finished(run: RunDirectory) -> bool:
    return run.quality_file.exists() and read_json(run.quality_file)["reason"] is None
