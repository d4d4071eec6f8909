"""claims list, noise, check and explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.commands.output import print_json

if TYPE_CHECKING:
    from orchestrator.published.claim_check import Check
    from orchestrator.published.explain import Explanation

app = typer.Typer(
    help="Published speeds: their conditions, and what a run says of them.", no_args_is_help=True
)
JSON = typer.Option(False, "--json", help="Print JSON.")
WIDTH = 80


@app.command("list")
def list_claims(as_json: bool = JSON) -> None:
    """The published numbers museorch knows, each with its conditions and source."""
    from orchestrator.published.claims import load_claims, rows
    from orchestrator.published.explain import texts

    claims = load_claims()
    if as_json:
        print_json(rows(claims))
        return
    for name, item in claims.items():
        _wrapped(f"{name}: {item.claim.headline()}", "")
        if item.claim.ratios:
            _wrapped(item.claim.rates())
        for subject, shares in item.claim.acceptance.items():
            _wrapped(f"{subject} accepted by position: {' '.join(f'{x:.2f}' for x in shares)}")
        known = [f"{key} {value}" for key, value in texts(item).items() if value is not None]
        _wrapped("; ".join(known))
        if item.quantisation_named:
            _wrapped(f"The report calls its quantisation {item.quantisation_named}.")
        if item.claim.note:
            _wrapped(item.claim.note)
        _wrapped(f"Source: {item.source}")


@app.command()
def noise(as_json: bool = JSON) -> None:
    """How far apart equal runs were found by others: a smaller difference says nothing."""
    from orchestrator.published.claims import load_noise

    found = load_noise()
    if as_json:
        print_json([{**one.model_dump(mode="json"), "source": source} for one, source in found])
        return
    for one, source in found:
        _wrapped(f"{one}. Source: {source}", "")


@app.command()
def check(
    run: Path = typer.Argument(help="A run directory."),
    as_json: bool = JSON,
) -> None:
    """Which conditions of each claim a run shares; numbers side by side only where it may be."""
    from orchestrator.published.claim_check import check as check_one
    from orchestrator.published.claim_check import check_json
    from orchestrator.published.claims import load_claims
    from orchestrator.report.labels import DUMMY, labels
    from orchestrator.result.build import build
    from orchestrator.rundir import RunDirectory

    result = build(RunDirectory.open(run))
    checks = [check_one(item, result) for item in load_claims().values()]
    found = [one for one in checks if one is not None]
    if as_json:
        print_json([check_json(one) for one in found])
        return
    for one in found:
        _print_check(one)
    comparable = sum(one.comparable for one in found)
    why = f" {DUMMY}" if DUMMY in labels(result) else ""
    _wrapped(f"{comparable} of {len(checks)} claims can be compared with this run.{why}", "")


@app.command()
def explain(a: str, b: str, as_json: bool = JSON) -> None:
    """Why two claims can or cannot be compared."""
    from dataclasses import asdict

    from orchestrator.published.claims import load_claims, named
    from orchestrator.published.explain import explain as explain_two

    claims = load_claims()
    found = explain_two(named(claims, a), named(claims, b))
    if as_json:
        data = {key: [asdict(pair) for pair in getattr(found, key)] for key in PARTS}
        print_json({"a": a, "b": b, "comparable": found.comparable, **data})
        return
    _print_explanation(found)


PARTS = ("differs", "unknown", "shared")


def _print_explanation(found: Explanation) -> None:
    from orchestrator.published.claims import NOT_PUBLISHED

    a, b = found.a.claim, found.b.claim
    _wrapped(f"a: {a.id}: {a.headline()}", "")
    _wrapped(f"b: {b.id}: {b.headline()}", "")
    if found.comparable:
        print("Every condition was published and is the same: they can be compared.")
    elif found.differs:
        names = [pair.field for pair in found.differs]
        _wrapped(f"They cannot be compared: {_listed(names)} {_differ(len(names))}.", "")
    else:
        _wrapped("Whether they can be compared is not known: not all was published.", "")
    for title, pairs in (
        ("Different", found.differs),
        ("Not published by one or both", found.unknown),
    ):
        if pairs:
            print(f"{title}:")
        for pair in pairs:
            left, right = (NOT_PUBLISHED if v is None else v for v in (pair.a, pair.b))
            _wrapped(f"{pair.field}: {left} / {right}")
    if found.shared:
        _wrapped(f"The same: {', '.join(pair.field for pair in found.shared)}", "")


def _print_check(found: Check) -> None:
    phase = f"{found.backend}, {found.mode}, {found.concurrency} at a time"
    print(f"{found.claim} ({phase}): {'comparable' if found.comparable else 'not comparable'}")
    differs = "; ".join(f"{c.field} {c.claim} / here {c.run}" for c in found.of("differs"))
    if differs:
        _wrapped(f"differs: {differs}")
    for state in ("shared", "unknown"):
        names = ", ".join(c.field for c in found.of(state))
        if names:
            _wrapped(f"{state}: {names}")
    for row in found.against:
        span = f" ({row.interval[0]:.2f} to {row.interval[1]:.2f})" if row.interval else ""
        _wrapped(f"{row.what}: claimed {row.claimed:g}, measured {row.measured:.2f}{span}")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _differ(count: int) -> str:
    return "differs" if count == 1 else "differ"


def _wrapped(text: str, indent: str = "  ") -> None:
    import textwrap

    print(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  "))
