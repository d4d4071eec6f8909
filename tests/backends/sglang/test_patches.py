from __future__ import annotations

import pytest

from backends.base import Device, Speculation
from backends.patch import needed
from backends.sglang.patches import PATCHES

CPU = (
    "sglang-cpu-softcap",
    "sglang-cpu-gates",
    "sglang-cpu-cache-locs",
    "sglang-cpu-verify-attention",
    "sglang-cpu-streams",
    "sglang-cpu-draft-kernels",
)
TOP_P = "sglang-top-p-after-top-k"


@pytest.mark.parametrize(
    ("version", "device", "speculation", "ids"),
    [
        ("0.5.23", "cuda", "none", (TOP_P,)),
        ("0.5.23", "cuda", "dflash", (TOP_P,)),
        ("0.5.18", "cuda", "dspark", ("sglang-dspark-layers", TOP_P)),
        ("0.5.23", "cpu", "none", (TOP_P, "sglang-cpu-softcap")),
        ("0.5.23", "cpu", "dflash", (TOP_P, *CPU, "sglang-cpu-dflash-sampling")),
        ("0.5.23", "cpu", "dspark", ("sglang-dspark-layers", TOP_P, *CPU)),
    ],
)
def test_needed(
    version: str, device: Device, speculation: Speculation, ids: tuple[str, ...]
) -> None:
    assert needed(PATCHES, version, device, speculation) == ids


def test_patches_are_complete() -> None:
    for name, patch in PATCHES.items():
        assert patch.id == name
        assert patch.engine == "sglang"
        assert patch.symptom
        assert patch.why
        for edit in patch.edits:
            assert edit.find != edit.replace
