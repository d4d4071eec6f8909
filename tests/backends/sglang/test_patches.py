from __future__ import annotations

import pytest

from backends.base import Device, Speculation
from backends.sglang.patches import PATCHES, needed

CPU = (
    "sglang-cpu-softcap",
    "sglang-cpu-gates",
    "sglang-cpu-cache-locs",
    "sglang-cpu-verify-attention",
    "sglang-cpu-streams",
)


@pytest.mark.parametrize(
    ("version", "device", "speculation", "ids"),
    [
        ("0.5.23", "cuda", "none", ()),
        ("0.5.23", "cuda", "dflash", ()),
        ("0.5.18", "cuda", "dspark", ("sglang-dspark-layers",)),
        ("0.5.23", "cpu", "none", ("sglang-cpu-softcap",)),
        ("0.5.23", "cpu", "dflash", CPU),
        ("0.5.23", "cpu", "dspark", ("sglang-dspark-layers", *CPU)),
    ],
)
def test_needed(
    version: str, device: Device, speculation: Speculation, ids: tuple[str, ...]
) -> None:
    assert needed(version, device, speculation) == ids


def test_patches_are_complete() -> None:
    for name, patch in PATCHES.items():
        assert patch.id == name
        assert patch.engine == "sglang"
        assert patch.symptom
        assert patch.why
        for edit in patch.edits:
            assert edit.find != edit.replace
