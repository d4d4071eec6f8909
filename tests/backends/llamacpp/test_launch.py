"""llama-server's argv, requests and events, without a server."""

from __future__ import annotations

import pytest
from msgspec import json

from backends import BACKENDS
from backends.base import PORT, Chunk, RequestSpeculation
from tests.backends.specs import GREEDY, WARM, ask, option, spec

LLAMA = BACKENDS["llamacpp"]


def test_no_flag_is_glued_to_its_value() -> None:
    """The server rejects --flag=value."""
    argv = LLAMA.plan(spec("dflash", format_="gguf")).argv
    assert not [word for word in argv if word.startswith("--") and "=" in word]


def test_the_context_is_what_all_slots_share() -> None:
    argv = LLAMA.plan(spec(format_="gguf", context_length=1000, slots=3)).argv
    assert option(argv, "--ctx-size") == "3000"
    assert option(argv, "--parallel") == "3"
    assert "--no-kv-unified" in argv


@pytest.mark.parametrize(
    ("family", "kind", "k"), [("dflash", "draft-dflash", 15), ("dspark", "draft-dspark", 15)]
)
def test_a_drafter_is_named_with_its_type_and_k(family: str, kind: str, k: int) -> None:
    plan = LLAMA.plan(spec(family, format_="gguf"))  # type: ignore[arg-type]
    assert option(plan.argv, "--spec-type") == kind
    assert option(plan.argv, "--spec-draft-n-max") == str(k)
    assert plan.draft_tokens == k


def test_the_clamp_is_told() -> None:
    (finding,) = LLAMA.plan(spec("dspark", format_="gguf")).findings
    assert finding.code == "draft-tokens-clamped"
    assert "16 to 15" in finding.text


def test_many_drafting_slots_are_warned_about() -> None:
    codes = [f.code for f in LLAMA.plan(spec("dflash", format_="gguf", slots=8)).findings]
    assert codes == ["many-drafting-slots"]
    assert not LLAMA.plan(spec(None, format_="gguf", slots=8)).findings


def test_more_slots_than_a_context_has_are_refused() -> None:
    codes = [f.code for f in BACKENDS["llamacpp"].plan(spec(format_="gguf", slots=257)).findings]
    assert codes == ["slots"]
    assert not BACKENDS["llamacpp"].plan(spec(format_="gguf", slots=256)).findings


def test_a_checkpoint_folder_is_refused() -> None:
    (finding,) = LLAMA.plan(spec()).findings
    assert (finding.level, finding.code) == ("error", "format")


def test_every_sampler_setting_is_sent_with_temperature_first() -> None:
    body = LLAMA.call(ask(WARM), "muse").body
    assert body["samplers"] == ["temperature", "top_k", "top_p"]
    assert (body["temperature"], body["top_k"], body["top_p"]) == (1.0, 64, 0.95)
    assert body["min_p"] == 0.0
    assert body["repeat_penalty"] == 1.0
    assert body["cache_prompt"] is False
    assert body["prompt"] == [0, 5, 9]


def test_fixed_length_bans_the_end_tokens() -> None:
    assert LLAMA.call(ask(GREEDY), "m").body["logit_bias"] == [[1, False], [2, False]]
    natural = LLAMA.call(ask(GREEDY, fixed_length=False), "m").body
    assert "logit_bias" not in natural
    assert natural["ignore_eos"] is False


def test_the_last_event_tells_about_drafting() -> None:
    event = {
        "tokens": [],
        "stop": True,
        "stop_type": "limit",
        "tokens_predicted": 32,
        "tokens_evaluated": 3,
        "timings": {"draft_n": 150, "draft_n_accepted": 21},
    }
    assert LLAMA.chunk(json.encode(event)) == Chunk(
        finish="length",
        prompt_tokens=3,
        completion_tokens=32,
        speculation=RequestSpeculation(steps=10, drafted=150, accepted=21),
    )


def test_steps_are_unknown_where_a_reply_ended_by_itself() -> None:
    """Drafts accepted beyond the end token do not come out, so nothing follows for the steps."""
    event = {
        "stop": True,
        "stop_type": "eos",
        "tokens_predicted": 32,
        "timings": {"draft_n": 150, "draft_n_accepted": 21},
    }
    told = LLAMA.chunk(json.encode(event)).speculation
    assert told == RequestSpeculation(steps=None, drafted=150, accepted=21)


def test_nothing_drafted_is_unknown_not_zero() -> None:
    event = {"stop": True, "stop_type": "limit", "tokens_predicted": 2, "timings": {}}
    assert LLAMA.chunk(json.encode(event)).speculation is None


def test_an_error_event_is_its_message() -> None:
    event = {"error": {"code": 500, "message": "no", "type": "server_error"}}
    assert LLAMA.chunk(json.encode(event)).error == "no"


def test_tokens_of_the_wrong_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"Expected `array.*token"):
        LLAMA.chunk(json.encode({"tokens": "abc"}))


def test_the_port_is_left_open() -> None:
    assert option(LLAMA.plan(spec(format_="gguf")).argv, "--port") == PORT


def test_kernels_on_a_cpu_are_those_whose_sums_do_not_depend_on_the_batch() -> None:
    plan = LLAMA.plan(spec(format_="gguf", device="cpu"))
    assert "--no-repack" in plan.argv
    assert plan.env["GGML_CPU_TILED_MM"] == "0"
    fast = LLAMA.plan(spec(format_="gguf", device="cpu", purpose="serve"))
    assert "--no-repack" not in fast.argv
    assert not fast.env
