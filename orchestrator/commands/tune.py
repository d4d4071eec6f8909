"""tune: find the best K of an arm, by prediction and then by measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from orchestrator.commands.numbers import numbers


def tune(
    recipe: str = typer.Argument(help="A recipe file, or a shipped recipe."),
    arm: str = typer.Option(..., "--arm", help="The arm with a drafter whose K is wanted."),
    draft_tokens: str | None = typer.Option(
        None, "--draft-tokens", help="K at which a step is timed, as 1,4,15. Default: four."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Folder. Default: runs/<utc>-<recipe>-tune."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress."),
) -> None:
    """Predict the best K from acceptance and the cost of a step, measure it, and say if it held."""
    import json

    from orchestrator.comparing import tune as tuning
    from orchestrator.job import prepare
    from orchestrator.progress import Progress
    from orchestrator.rundir import new_run_path

    job = prepare(recipe)
    where = out if out is not None else new_run_path(f"{job.recipe.name}-tune")
    with Progress(quiet=quiet) as progress:
        data = tuning.tune(job, arm, numbers(draft_tokens, "--draft-tokens"), where, progress)
    if as_json:
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return
    for phase in data["phases"]:
        _print(data["arm"], phase)


def _print(arm: str, phase: dict[str, Any]) -> None:
    from orchestrator.report.terminal import hang

    def wrapped(text: str) -> None:
        print("\n".join(hang(text)))

    wrapped(f"{arm}, {phase['mode']}, {phase['concurrency']} at a time")
    timed = ", ".join(str(p["draft_tokens"]) for p in phase["curve"] if p["step_measured"])
    if phase["why_real"] is None:
        wrapped(f"Steps timed with simulated acceptance at K {timed}; the rest is expected (~).")
    else:
        wrapped(f"Steps timed on real arms at K {timed}: {phase['why_real']}")
    print(f"{'K':>4}{'tau':>8}{'step ms':>10}{'tok/s expected':>16}")
    for point in phase["curve"]:
        mark = "  best" if point["draft_tokens"] == phase["best"] else ""
        tau = _about(point["acceptance_length"], point["tau_measured"])
        step = _about(point["step_ms"], point["step_measured"])
        print(f"{point['draft_tokens']:>4}{tau:>8}{step:>10}{point['tok_s']:>16.1f}{mark}")
    best = f"K {phase['best']}: {phase['predicted_tok_s']:.1f} tok/s expected"
    if phase["measured_tok_s"] is not None:
        best += f", {phase['measured_tok_s']:.1f} measured"
    print(best)
    if phase["plain_tok_s"] is not None:
        none_pays = phase["plain_tok_s"] >= max(point["tok_s"] for point in phase["curve"])
        pays = "; no K is expected to be faster" if none_pays else ""
        wrapped(f"Without a drafter: {phase['plain_tok_s']:.1f} tok/s{pays}")
    if phase["ratio"] is None:
        wrapped(f"Against K {phase['against']}: {phase['verdict']}, {phase['reason']}")
    else:
        low, high = phase["interval"]
        wrapped(
            f"Against K {phase['against']}: {phase['ratio']:.2f}x, {phase['verdict']} "
            f"(95 % interval {low:.2f} to {high:.2f}; expected {phase['predicted_ratio']:.2f}x)"
        )
    what = "rate" if phase["best"] == phase["against"] else "ratio"
    print(f"The predicted {what} {HELD[phase['held']]}.\n")


HELD = {True: "held", False: "did not hold", None: "can neither be confirmed nor denied"}


def _about(value: float, measured: bool) -> str:
    return f"{'' if measured else '~'}{value:.2f}"
