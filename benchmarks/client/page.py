"""docs/measurements/client.md from the result beside it: `python -m benchmarks.client.page`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "measurements"
RESULT = DOCS / "client.json"


def tables(result: dict[str, Any]) -> str:
    return "TODO"
