"""`up` on the real engines: a chat through the endpoint, acceptance, and nothing left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest

from orchestrator.environments.engines import cache_root
from orchestrator.up.live import look
from orchestrator.up.state import everyone
from tests.orchestrator.up.servers import answer, kept, museorch

QUESTION = "Write a function that adds two numbers."
TOOL = {
    "type": "function",
    "function": {
        "name": "weather.get",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own with the engines of this machine."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "engines").symlink_to(cache_root() / "engines")
    yield cache
    museorch(cache, "down", "--all")


def client(url: str, key: str = "none") -> openai.OpenAI:
    """As users have it, but for proxies, which loopback needs none of."""
    return openai.OpenAI(
        base_url=url,
        api_key=key,
        max_retries=0,
        timeout=300,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def chat(url: str, question: str = QUESTION, **more: Any) -> Any:
    """What the model replies, or with `stream` its chunks; greedy."""
    settings: dict[str, Any] = {"max_tokens": 120, "temperature": 0, **more}
    with client(url) as talking:
        reply = talking.chat.completions.create(
            model="tiny-muse", messages=[{"role": "user", "content": question}], **settings
        )
        return list(reply) if settings.get("stream") else reply


def reasoning(part: Any) -> str:
    """Of a message or a delta: engines call it one or the other."""
    return getattr(part, "reasoning_content", None) or getattr(part, "reasoning", None) or ""


def serves(home: Path, backend: str, speculation: str, *more: str) -> None:
    arguments = ("--model", "tiny-muse", "--backend", backend, "--speculation", speculation)
    row = answer(home, "up", *arguments, "--detach", "--threads", "1", *more)
    engine = psutil.Process(row["pid"])
    message = chat(row["url"]).choices[0].message
    # Its channels are taken apart: the one to itself is no part of the answer.
    assert reasoning(message).startswith("The user wants")
    assert message.content
    assert "<|" not in message.content
    assert "to=" not in message.content
    deltas = [chunk.choices[0].delta for chunk in chat(row["url"], stream=True) if chunk.choices]
    assert "".join(map(reasoning, deltas)).strip() == reasoning(message).strip()
    assert "".join(delta.content or "" for delta in deltas).strip() == message.content.strip()
    assert len([delta for delta in deltas if delta.content]) > 1
    called = chat(row["url"], "What is the weather in Paris?", tools=[TOOL], max_tokens=200)
    (call,) = called.choices[0].message.tool_calls
    assert call.function.name == "weather.get"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    told = answer(home, "status")
    assert told["state"] == "running"
    assert told["acceptance_length"] > 1.5
    assert told["generated_tokens"] >= 120
    assert museorch(home, "down").returncode == 0
    assert kept(home) == []
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    with pytest.raises(openai.APIConnectionError):
        chat(row["url"])


@pytest.mark.engine("llamacpp")
def test_llamacpp_with_dspark(home: Path) -> None:
    serves(home, "llamacpp", "dspark")


@pytest.mark.engine("llamacpp")
def test_a_key_is_asked_for(home: Path) -> None:
    key = "a-key-that-is-long-enough"
    up = ("up", "--model", "tiny-muse", "--backend", "llamacpp", "--detach", "--threads", "1")
    row = answer(home, *up, env={"MUSEORCH_API_KEY": key})
    with pytest.raises(openai.AuthenticationError):
        chat(row["url"])
    with client(row["url"], key) as talking:
        assert talking.models.list().data[0].id == "tiny-muse"
    assert "MUSEORCH_API_KEY" in answer(home, "status")["reason"]
    assert answer(home, "status", env={"MUSEORCH_API_KEY": key})["acceptance_length"] > 1.5
    assert key not in Path(row["log"]).read_text(encoding="utf-8")


@pytest.mark.engine("llamacpp")
def test_tokens_count_before_their_request_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama-server's own counter moves only at the end."""
    up = ("up", "--model", "tiny-muse", "--backend", "llamacpp", "--detach", "--threads", "1")
    answer(home, *up, "--speculation", "none")
    monkeypatch.setenv("MUSEORCH_HOME", str(home))
    (state,) = everyone()
    body: dict[str, Any] = {
        "prompt": [0, 5, 9],
        "n_predict": 3500,
        "ignore_eos": True,
        "stream": True,
    }
    body["logit_bias"] = [[1, False], [2, False]]
    with httpx.stream("POST", f"{state.url}/completion", json=body, timeout=60) as reply:
        lines = reply.iter_lines()  # kept: without it the stream is closed
        next(lines)
        (live,) = look([state], None, 0.2)
    assert live.running == 1
    assert live.output_tok_s is not None
    assert live.output_tok_s > 0
    assert live.acceptance_length is None


@pytest.mark.engine("vllm")
def test_vllm_with_dflash(home: Path) -> None:
    serves(home, "vllm", "dflash")


@pytest.mark.slow
@pytest.mark.engine("sglang")
def test_sglang_with_dflash(home: Path) -> None:
    serves(home, "sglang", "dflash", "--slots", "2", "--context-length", "1024")
