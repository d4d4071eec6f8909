from __future__ import annotations

import types

import numpy as np
import pytest

from backends.base import Device, Speculation
from backends.errors import InputError
from backends.patch import needed
from backends.vllm.patches import PATCHES
from backends.vllm.patches.sampler import CPU_EXPAND


@pytest.mark.parametrize(
    ("version", "device", "speculation", "ids"),
    [
        ("0.32.0", "cpu", "none", ()),
        (
            "0.32.0",
            "cpu",
            "dflash",
            ("vllm-v1-wrapper", "vllm-cpu-expand", "vllm-cpu-context-norm"),
        ),
        ("0.33.0", "cuda", "none", ()),
        ("0.33.0", "cuda", "dflash", ()),
        ("0.33.0", "cuda", "dspark", ("vllm-dspark-wrapper",)),
        ("0.34.0.dev12+gabc", "cuda", "dspark", ("vllm-dspark-wrapper",)),
    ],
)
def test_needed(
    version: str, device: Device, speculation: Speculation, ids: tuple[str, ...]
) -> None:
    assert needed(PATCHES, version, device, speculation) == ids


def test_needed_refuses_what_is_no_version() -> None:
    with pytest.raises(InputError, match="'latest' is not a version number"):
        needed(PATCHES, "latest", "cpu", "dflash")


def test_patches_are_complete() -> None:
    for name, patch in PATCHES.items():
        assert patch.id == name
        assert patch.engine == "vllm"
        assert patch.symptom
        assert patch.why
        assert patch.upstream == "none known" or patch.upstream.startswith("https://")
        for edit in patch.edits:
            # Applying it must be visible, and it must not find its own result again.
            assert edit.find not in edit.replace or edit.replace.count(edit.find) == 1
            assert edit.find != edit.replace


def test_expand_writes_each_requests_value_into_its_slice() -> None:
    """The replacement runs on anything with tolist() and slice assignment, so on numpy too."""
    code = "def expand(output, input_val, cu_num_tokens, replace_from, replace_to):\n"
    space: dict[str, object] = {}
    exec(code + CPU_EXPAND.edits[0].replace, space)
    expand = space["expand"]
    assert isinstance(expand, types.FunctionType)
    output = np.full(6, 9.0, dtype=np.float32)
    expand(output, np.array([0.5, 0.0, 0.25]), np.array([2, 5, 6]), 0, 1)
    assert output.tolist() == [0.5, 0.5, 1.0, 1.0, 1.0, 0.25]
