"""On the real engine: a fixed length masks the end tokens, with a drafter as without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.base import Request, Sampling
from backends.sglang.launch import SGLANG
from orchestrator.job import prepare
from orchestrator.load.client import PhaseContext, run_phase
from orchestrator.load.sample import Sample
from orchestrator.serving.overlay import materialise
from orchestrator.serving.serve import serve

END = (1, 2)
MORE = 24


def ask(url: str, request: Request) -> Sample:
    (sample,) = run_phase(
        url,
        SGLANG,
        "muse",
        [request],
        concurrency=1,
        context=PhaseContext("test", "greedy", 1),
        on_sample=lambda _: None,
        should_stop=lambda: False,
        timeout_s=300.0,
    )
    assert sample.error is None
    return sample


@pytest.mark.slow
@pytest.mark.engine("sglang")
@pytest.mark.parametrize("arm", ["sglang-base", "sglang-dflash", "sglang-dspark"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_end_token_comes_before_the_length(tmp_path: Path, arm: str, temperature: float) -> None:
    job = prepare("tiny-muse/three-engines")
    item = next(planned for planned in job.planned if planned.arm.id == arm)
    assert item.engine is not None
    argv = list(item.plan.argv)
    argv[argv.index("--context-length") + 1] = "1024"
    argv[argv.index("--max-total-tokens") + 1] = "1060"
    plan = replace(item.plan, argv=tuple(argv))
    overlays = {o.placeholder: str(materialise(o, tmp_path / "overlays")) for o in plan.overlays}
    chat = next(prompt for prompt in job.prompts if "chat" in prompt.id).token_ids
    greedy = Request("p", chat, 700, Sampling(0.0), 1, END, fixed_length=False)
    with serve(
        plan,
        SGLANG,
        folder=tmp_path,
        probe=replace(greedy, max_tokens=2),
        model="muse",
        overlay_paths=overlays,
    ) as server:
        whole = ask(server.url, greedy)
        assert whole.finish == "stop"
        text = [token for token in whole.token_ids if token not in END]
        late = replace(
            greedy,
            prompt_ids=(*chat, *text[:-6]),
            max_tokens=MORE,
            sampling=Sampling(temperature, 1.0, 0),
            fixed_length=True,
        )
        found = ask(server.url, late)
    assert found.finish == "length"
    assert len(found.token_ids) == MORE
    assert not set(found.token_ids) & set(END)
    if temperature == 0:
        assert found.token_ids[:6] == tuple(text[-6:])
