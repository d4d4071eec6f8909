"""The documentation is true: generated pages are current, links lead somewhere, commands exist."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from orchestrator.cli import app
from orchestrator.inputs.recipe import Recipe
from tests.orchestrator.test_run import MUSEORCH
from tools.docs import DOCS, PAGES

ROOT = DOCS.parent
MARKDOWN = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "recipes").rglob("*.md")])
# What needs a GPU, the network, minutes or a run is parsed and not run.
NOT_RUN = {"up", "status", "logs", "top", "restart", "down", "report"}
NOT_RUN |= {"audit", "compare", "bench", "tune", "engines install", "engines add", "engines remove"}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_generated_pages_are_current(name: str) -> None:
    """`python -m tools.docs` makes them so."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()


def anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ +(.+?) *$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Broken links, missing pictures and pages that no menu leads to are warnings."""
    pytest.importorskip("sphinx", reason="the site needs the extra: pip install -e '.[docs]'")
    argv = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", str(DOCS), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "tutorial.html" in page
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=.https?:", page)


def recipes_of(path: Path, folder: Path) -> None:
    """Write the recipes of a page that begin with their file's name."""
    text = path.read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.+?)```", text, re.S):
        if name := re.match(r"# (\S+\.yaml)\n", block):
            (folder / name[1]).write_text(block, encoding="utf-8")


def parse(words: list[str]) -> None:
    """Read a command line as museorch does, without running it; raises where it is wrong."""
    command: Any = typer.main.get_command(app)
    names = list(itertools.takewhile(lambda word: word in getattr(command, "commands", ()), words))
    while words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
    assert not hasattr(command, "commands"), words
    command.make_context(" ".join(names), list(words))


def test_commands_without_a_prompt_parse_too() -> None:
    blocks = (
        block
        for path in MARKDOWN
        for block in re.findall(r"^```\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)
    )
    lines = [line for block in blocks for line in re.findall("^museorch .+", block, re.M)]
    assert len(lines) > 10
    for line in lines:
        parse(shlex.split(line, comments=True)[1:])


def console_commands(path: Path) -> list[str]:
    """`$ museorch ...` lines of a Markdown file."""
    return re.findall(r"^\$ (museorch .+)$", path.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize(
    ("path", "line"),
    {line: (path, line) for path in MARKDOWN for line in console_commands(path)}.values(),
)
def test_documented_commands_work(path: Path, line: str, tmp_path: Path) -> None:
    recipes_of(path, tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    words = shlex.split(line, comments=True)[1:]
    verb = " ".join(words[:2]) if words[0] in {"engines", "patch", "claims"} else words[0]
    dry = "--dry-run" in words
    parse(words)
    if verb in NOT_RUN and not dry:
        return
    done = subprocess.run(
        [*MUSEORCH, *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    # A dry run on another machine than it is meant for ends with what is missing there.
    assert done.returncode == 0 or (dry and "is not installed" in done.stderr), done.stderr


@pytest.mark.engine("llamacpp")
def test_the_tutorial_runs(tmp_path: Path) -> None:
    """Its two runs, and both side by side; the other commands have tests of their own."""
    tutorial = DOCS / "tutorial.md"
    recipes_of(tutorial, tmp_path)
    for line in console_commands(tutorial):
        words = shlex.split(line)[1:]
        if words[:3] != ["report", "first", "second"] and not (
            words[0] == "compare" and (tmp_path / words[1]).exists()
        ):
            continue
        done = subprocess.run(
            [*MUSEORCH, *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
    lengths = {
        name: arm["modes"][0]["metrics"]["acceptance_length"]["value"]
        for name in ("first", "second")
        for arm in json.loads((tmp_path / name / "result.json").read_text("utf-8"))["arms"]
        if arm["speculation"] == "dspark"
    }
    assert lengths == {
        "first": pytest.approx(4.46, abs=0.02),
        "second": pytest.approx(3.1, abs=0.05),
    }
    assert (tmp_path / "side-by-side.html").exists()


def test_the_tutorials_change_is_one() -> None:
    text = (DOCS / "tutorial.md").read_text("utf-8")
    first = text.partition("```yaml\n# first.yaml\n")[2].partition("```")[0]
    ((old, new),) = re.findall(r"^\$ sed 's/(.+)/(.+)/' first.yaml > third.yaml$", text, re.M)
    assert first.count(old) == 1
    assert (
        Recipe.model_validate(yaml.safe_load(first.replace(old, new))).workload.output_tokens == 64
    )


def test_the_command_table_names_what_there_is() -> None:
    told = set(re.findall(r"^\| `museorch ([a-z]+)", (ROOT / "README.md").read_text("utf-8"), re.M))
    help_text = subprocess.run([*MUSEORCH, "--help"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^│ ([a-z]+) ", help_text.stdout, re.M))
    assert told == listed


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    table = (DOCS / "dependencies.md").read_text("utf-8").partition("Engines are no")[0]
    named = re.findall(r"^\| ([a-z0-9-]+) \|", table, re.M)[1:]
    assert sorted(re.split("[^a-z0-9-]", one)[0] for one in project["dependencies"]) == sorted(
        named
    )


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
    assert len(fragments) == 4
    for fragment in fragments:
        assert Recipe.model_validate({**base, **fragment})
