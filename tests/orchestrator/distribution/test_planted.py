"""llama-server sampled as asked, and with faults planted into it: the audit tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from backends.base import Call, Request
from backends.llamacpp.launch import LLAMACPP, LlamaCpp
from backends.protocol import Backend
from backends.simulate import Simulated
from orchestrator.distribution.audit import AS_ASKED, DIFFERS, Row, judge, look_up
from orchestrator.distribution.draw import Asked, draw
from orchestrator.job import prepare
from orchestrator.load.sample import Sample

pytestmark = [pytest.mark.engine("llamacpp"), pytest.mark.engine("vllm")]

DEFAULT_ORDER = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc"]


class OwnOrder(LlamaCpp):
    """Leaves the sampler order to the server, which puts temperature last."""

    def call(self, request: Request, model: str) -> Call:
        call = super().call(request, model)
        return Call(call.path, {**call.body, "samplers": [*DEFAULT_ORDER, "temperature"]})


class OwnMinP(LlamaCpp):
    """Leaves min_p to the server, whose default is 0.05."""

    def call(self, request: Request, model: str) -> Call:
        call = super().call(request, model)
        samplers = [*call.body["samplers"], "min_p"]
        return Call(call.path, {**call.body, "samplers": samplers, "min_p": 0.05})


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("audit")
    job = prepare("tiny-muse/three-engines")
    arm = next(item for item in job.planned if item.arm.id == "llamacpp-dflash")
    fake = replace(arm, plan=LLAMACPP.simulate(arm.plan, Simulated(length=3.0), "cpu"))
    # Code, which is the harder to foresee, so that there is something to draw.
    prompts = tuple(p for p in job.prompts if "code" in p.id)[:6]
    asked = Asked(prompts, tuple(job.model.model.tokens.end), samples=60, tokens=4, seed=1)
    arms: Mapping[str, tuple[Any, Backend]] = {
        "honest": (arm, LLAMACPP),
        "own order": (arm, OwnOrder()),
        "own min_p": (arm, OwnMinP()),
        "simulated": (fake, LLAMACPP),
    }
    drawn: dict[str, Mapping[str, Sequence[Sample]]] = {
        name: draw(item, asked, folder / name.replace(" ", "-"), backend=backend)
        for name, (item, backend) in arms.items()
    }
    return judge(drawn, {p.id: p.token_ids for p in prompts}, asked.end, look_up(job))


def verdicts(rows: list[Row], arm: str) -> dict[tuple[str, str], str]:
    return {(row.mode, row.positions): row.verdict for row in rows if row.arm == arm}


def test_an_honest_drafted_arm_passes(rows: list[Row]) -> None:
    assert set(verdicts(rows, "honest").values()) == {AS_ASKED}
    later = next(r for r in rows if (r.arm, r.mode) == ("honest", "t1.0") and r.fit.contexts > 6)
    assert later.power.forced is not None
    assert later.power.forced < 0.3


def test_the_servers_own_order_is_found_where_it_matters(rows: list[Row]) -> None:
    found = verdicts(rows, "own order")
    assert found["t0.6", "later tokens"] == DIFFERS
    # At T 1 the order changes nothing.
    assert found["t1.0", "later tokens"] == AS_ASKED


def test_the_servers_own_min_p_is_found(rows: list[Row]) -> None:
    assert verdicts(rows, "own min_p")["t1.0", "later tokens"] == DIFFERS


def test_simulated_acceptance_is_found_after_the_first_token(rows: list[Row]) -> None:
    found = verdicts(rows, "simulated")
    assert found["t1.0", "first token"] == AS_ASKED
    assert found["t1.0", "later tokens"] == found["t0.6", "later tokens"] == DIFFERS
