from __future__ import annotations

import pytest

from backends.errors import InputError
from orchestrator.serving import launch


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "HF_TOKEN_PATH", "OPENAI_API_KEY", "X_APIKEY", "AWS_SECRET_ACCESS_KEY"),
        *("AWS_ACCESS_KEY_ID", "DB_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "github_token"),
        *("VIRTUAL_ENV", "PYTHONHOME"),
    ],
)
def test_secrets_and_our_own_python_stay_here(name: str) -> None:
    assert name not in launch.environment({name: "x"}, {}, "/e/bin/python")


def test_a_password_in_a_url_stays_here() -> None:
    urls = {"INDEX": "https://me:pw@host/simple", "OTHER": "https://host:8080/simple"}
    assert set(launch.environment(urls, {}, "e")) == {"OTHER", "PATH", "PYTHONUNBUFFERED"}


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES", "HOME", "MONKEY"]
)
def test_the_rest_goes_along(name: str) -> None:
    assert launch.environment({name: "x"}, {}, "e")[name] == "x"


def test_the_engines_own_tools_are_found_first() -> None:
    assert (
        launch.environment({"PATH": "/usr/bin"}, {}, "/e/bin/python")["PATH"] == "/e/bin:/usr/bin"
    )
    assert launch.environment({"PATH": "/usr/bin"}, {}, "python")["PATH"] == "/usr/bin"


def test_what_the_plan_adds_wins() -> None:
    assert launch.environment({"A": "1"}, {"A": "2", "HF_TOKEN": "t"}, "e")["A"] == "2"


def test_port_and_overlays_are_filled_in() -> None:
    words = ("vllm", "--model", "{overlay}", "--port", "{port}", '{"model": "{overlay}", "n": 3}')
    assert launch.argv(words, 8000, {"{overlay}": "/o"}) == [
        *("vllm", "--model", "/o", "--port", "8000", '{"model": "/o", "n": 3}')
    ]


def test_host_and_url() -> None:
    assert launch.host(("e", "--host", "0.0.0.0")) == "0.0.0.0"
    assert launch.host(("e", "--host")) == "127.0.0.1"
    assert launch.url("0.0.0.0", 1) == "http://127.0.0.1:1"
    assert launch.url("::1", 1) == "http://[::1]:1"


def test_a_port_is_reserved_once_and_free_again() -> None:
    port, kept = launch.reserved_port("127.0.0.1", None)
    with kept, pytest.raises(InputError, match=f"port {port} is in use"):
        launch.reserved_port("127.0.0.1", port)
    again, kept = launch.reserved_port("127.0.0.1", port)
    kept.close()
    assert again == port
