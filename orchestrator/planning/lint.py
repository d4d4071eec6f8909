"""Drafter lint: what would make a drafter fail, or draft badly without a word, with a target.

Most of these faults raise no error in any engine; acceptance is just low. Only headers are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from backends.base import Finding
from orchestrator.planning import lint_config as config
from orchestrator.planning import lint_tensors as tensors
from orchestrator.planning.drafter_shape import (
    drafter_shape,
    target_shape,
)
from orchestrator.planning.headers import read_headers
from orchestrator.planning.lint_case import Case, Method


def lint(
    drafter: Path, target: Path, *, method: Method | None = None, draft_tokens: int | None = None
) -> tuple[Finding, ...]:
    """Everything found, errors first. InputError where a header cannot be read.

    `method`: how it is to be run, None takes what its tensors say. `draft_tokens`: K.
    """
    case = Case(
        drafter_shape(read_headers(drafter)),
        target_shape(read_headers(target)),
        method,
        draft_tokens,
    )
    found = [finding for rule in RULES for finding in rule(case)]
    order = ("error", "warning", "info")
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    *(config.method, config.vocabulary, config.window, config.layers),
    *(config.anchor, config.draft_tokens, config.mask),
    *(tensors.sizes, tensors.tensors, tensors.confidence, tensors.engines),
)
