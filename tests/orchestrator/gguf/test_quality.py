"""Quality of quantised targets: the arithmetic, and the real server on the bundled model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from backends.errors import InputError
from orchestrator.environments.engines import resolve
from orchestrator.gguf.quality import Quality, compare, quality
from tests.orchestrator.gguf.edited import DFLASH, TARGET, edited

TEXT = "def first(items):\n    return items[0]\n"


def measured(*files: Path, folder: Path, tokens: int = 24) -> list[Quality]:
    return list(
        quality(
            files[0],
            files[1:],
            TEXT,
            engine=resolve("llamacpp"),
            folder=folder,
            tokens=tokens,
            threads=1,
            watch=lambda *_: None,
        )
    )


def test_the_numbers_are_those_of_the_definitions() -> None:
    base = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], dtype=np.float32))
    other = np.log(np.array([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]], dtype=np.float32))
    same = compare(Path("a"), base, base, [0, 1])
    assert same.perplexity == pytest.approx(1 / math.sqrt(0.5 * 0.8))
    assert (same.top1_agreement, same.divergence) == (1.0, 0.0)
    found = compare(Path("b"), other, base, [0, 1])
    assert found.perplexity == pytest.approx(1 / math.sqrt(0.25 * 0.8))
    assert found.top1_agreement == 0.5
    # Of the first row alone: .5 ln(.5/.25) + .25 ln(.25/.5), over two rows.
    assert found.divergence == pytest.approx(0.25 * math.log(2) / 2, rel=1e-6)


@pytest.mark.engine("llamacpp")
def test_a_changed_head_is_seen_and_a_copy_is_not(tmp_path: Path) -> None:
    def coarse(
        stored: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """bf16 with the mantissa cut away: powers of two."""
        return np.ascontiguousarray(stored.view(np.uint16) & 0xFF80).view(np.uint8)

    copy = edited(TARGET, tmp_path / "copy.gguf")
    bad = edited(TARGET, tmp_path / "bad.gguf", tensors={"output.weight": coarse})
    base, same, worse = measured(TARGET, copy, bad, folder=tmp_path / "logs")
    assert base.positions > 10
    assert same.perplexity == base.perplexity
    assert (same.top1_agreement, same.divergence) == (1.0, 0.0)
    assert worse.divergence > 1e-3


def test_a_drafter_has_no_perplexity(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a drafter"):
        measured(TARGET, DFLASH, folder=tmp_path)
