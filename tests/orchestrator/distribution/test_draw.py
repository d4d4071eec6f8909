"""What drawn answers must be, before they are judged."""

from __future__ import annotations

import pytest

from backends.base import RequestSpeculation
from backends.errors import EngineError
from orchestrator.distribution.draw import _require_drafted
from tests.orchestrator.measured import sample


def test_an_arm_whose_drafter_did_nothing_is_not_judged() -> None:
    idle = [sample(1), sample(2, told=RequestSpeculation(steps=0, drafted=0, accepted=0))]
    with pytest.raises(EngineError, match=r"dflash: nothing was drafted during t0\.6"):
        _require_drafted("llamacpp-dflash", "t0.6", idle)
    # A short answer has none, the others do.
    drafted = sample(3, told=RequestSpeculation(steps=1, drafted=3, accepted=0))
    _require_drafted("llamacpp-dflash", "t0.6", [*idle, drafted])
