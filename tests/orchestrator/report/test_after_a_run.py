"""What a run leaves beside its result, and what it tells while it goes; on a fake engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.orchestrator.report.reading import Reader
from tests.recipes_for_tests import recipe_data, write_recipe


def test_a_run_leaves_its_reports(tmp_path: Path) -> None:
    out = tmp_path / "out"
    recipe = write_recipe(tmp_path, recipe_data(tmp_path))
    argv = ["compare", str(recipe), "--out", str(out), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", *argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    arm = result["arms"][0]
    reader = Reader((out / "report.html").read_text(encoding="utf-8"))
    shown = reader.table("Arms", "0").cell(arm["id"], "Decode rate (tok/s)")[1]
    assert shown == arm["modes"][0]["metrics"]["decode_tok_s"]["value"]
    assert f"| {arm['id']} |" in (out / "report.md").read_text(encoding="utf-8")

    events = [json.loads(line) for line in done.stderr.splitlines()]
    names = [event["event"] for event in events]
    files = [Path(event["text"]).name for event in events if event["event"] == "file"]
    assert files == ["result.json", "report.md", "report.html"]
    assert names.count("turn") == len(result["arms"]) + 1
    assert names.count("sample") == sum(
        mode["requests"] for a in result["arms"] for mode in a["modes"]
    ) + sum(mode["requests"] for mode in arm["modes"])
    seconds = [event["seconds"] for event in events if "seconds" in event]
    assert seconds == sorted(seconds)
