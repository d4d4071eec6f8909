"""Markers: what needs an engine, a GPU or minutes is skipped, with the reason."""

from __future__ import annotations

import os

import pytest

from backends.errors import EngineError
from orchestrator.environments.engines import resolve
from orchestrator.planning.cards import visible


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run what takes minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run with --slow"))
        if item.get_closest_marker("gpu") and not visible():
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A missing engine is a skip at a desk and a failure in CI, which installs them all."""
    for marker in item.iter_markers("engine"):
        try:
            resolve(marker.args[0])
        except EngineError as error:
            if os.environ.get("CI"):
                pytest.fail(error.message)
            pytest.skip(error.message)
