"""The documentation is true: generated pages are current, links lead somewhere, commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from orchestrator.recipe import Recipe
from tests.orchestrator.test_run import MUSEORCH
from tools.docs import DOCS, PAGES

ROOT = DOCS.parent
MARKDOWN = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "recipes").rglob("*.md")])
# What needs a GPU, the network or minutes; its options are checked by --help instead.
NOT_RUN = {"up", "status", "logs", "top", "restart", "down"}
NOT_RUN |= {"compare", "bench", "tune", "engines install", "engines add", "engines remove"}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_generated_pages_are_current(name: str) -> None:
    """`python -m tools.docs` makes them so."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", target):
            assert (path.parent / target.split("#")[0]).exists(), target


def console_commands() -> list[str]:
    """`$ museorch ...` lines of the Markdown files."""
    found: dict[str, None] = {}
    for path in MARKDOWN:
        for line in re.findall(r"^\$ (museorch .+)$", path.read_text(encoding="utf-8"), re.M):
            found[line] = None
    return list(found)


@pytest.mark.parametrize("line", console_commands())
def test_documented_commands_work(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    verb = " ".join(words[:2]) if words[0] in {"engines", "patch", "claims"} else words[0]
    if verb in NOT_RUN and "--dry-run" not in words:
        words = [*verb.split(), "--help"]
    done = subprocess.run(
        [*MUSEORCH, *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_command_table_names_what_there_is() -> None:
    told = set(re.findall(r"^\| `museorch ([a-z]+)", (ROOT / "README.md").read_text("utf-8"), re.M))
    help_text = subprocess.run([*MUSEORCH, "--help"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^│ ([a-z]+) ", help_text.stdout, re.M))
    assert told == listed


def test_the_readme_recipe_is_valid() -> None:
    (block,) = re.findall(r"```yaml\n(.+?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert Recipe.model_validate(yaml.safe_load(block)).arms


def test_the_readme_runs_through_make() -> None:
    """The two commands that promise everything are targets, and CI calls the second."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo:", makefile, re.M)
    assert re.search(r"^test:", makefile, re.M)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_recipe_fragments_of_the_docs_are_valid() -> None:
    base = {
        "schema": 1,
        "name": "x",
        "model": "tiny-muse",
        "workload": {"prompts": "demo"},
        "arms": [{"backend": "vllm"}],
    }
    text = (DOCS / "comparing.md").read_text("utf-8")
    fragments = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.+?)```", text, re.S)]
    assert len(fragments) == 3
    for fragment in fragments:
        assert Recipe.model_validate({**base, **fragment})
