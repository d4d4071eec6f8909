"""What several commands print in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.base import Finding


def print_json(data: object) -> None:
    import json

    print(json.dumps(data, indent=1, ensure_ascii=False))


def print_findings(found: Sequence[Finding], *, as_json: bool) -> bool:
    """Print what a check found; whether it holds no error."""
    from dataclasses import asdict

    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        for finding in found:
            print(f"{finding.level}: {finding.text} [{finding.code}]")
            if finding.fix:
                print(f"    {finding.fix}")
        if not found:
            print("Nothing found.")
    return not any(finding.level == "error" for finding in found)
