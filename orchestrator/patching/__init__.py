"""Patches in an engine's environment: what is needed, what is applied, apply, revert, verify."""

from orchestrator.patching.apply import AppliedPatch, FileHash, apply, ensure, revert
from orchestrator.patching.status import (
    PatchStatus,
    installed_version,
    missing_target,
    status,
    verify,
)

__all__ = [
    "AppliedPatch",
    "FileHash",
    "PatchStatus",
    "apply",
    "ensure",
    "installed_version",
    "missing_target",
    "revert",
    "status",
    "verify",
]
