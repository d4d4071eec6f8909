"""Untrusted text: nothing that moves a cursor or gives a secret away gets through."""

from __future__ import annotations

import pytest

from orchestrator.diagnose.text import clean, mask, safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://host\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\text", "text"),
        ("\x9b2Jtext", "text"),
        ("a\x00b\x08c\x7fd", "abcd"),
        ("a\tb\rc\u2028d", "a b c d"),
        ("user\u202egpj.exe\u2066", "usergpj.exe"),
        ("\ufeffstart\u200b", "start"),
        ("cut off \x1b[", "cut off "),
        ("plain: ünïcödé 漢字", "plain: ünïcödé 漢字"),
    ],
)
def test_only_visible_characters_are_left(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=hf_SECRETsecret0123",
        "token hf_SECRETsecret0123 was refused",
        "OPENAI_API_KEY: sk-proj-SECRETsecret",
        "'api_key': ['SECRETsecret'], 'port': 8000",
        "'api_key': ['SECRETsecret', 'SECRETother'], 'port': 8000",
        '{"api_key": "SECRETsecret"}',
        "llama-server --api-key SECRETsecret --port 8080",
        "Authorization: Bearer SECRET.secret-0123",
        "Authorization: Basic U0VDUkVUc2VjcmV0",
        "https://user:SECRETsecret@host/model.gguf",
        "https://host/file?X-Amz-Signature=SECRETsecret&x=1",
        "password=SECRETsecret",
        "ghp_SECRETsecret0123",
        "AKIASECRETSECRET1234",
        "cookie eyJhbGciOiJIUzI1NiJ9.SECRETsecret.SECRETsecret",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    masked = mask(text)

    assert "***" in masked
    assert "SECRET" not in masked
    assert "U0VDUkVU" not in masked


@pytest.mark.parametrize(
    "text",
    [
        "prompt_tokens: 120, total_token=4096",
        "num_speculative_tokens=15, mask_token_id=201818",
        "'api_key': None, 'token': None",
        "load: special token '<|eot|>' is missing",
        "invalid token in the prompt",
        "http://127.0.0.1:8000/v1",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_a_long_text_is_cut_and_says_so() -> None:
    assert safe("x" * 500, limit=10) == "x" * 9 + "…"
    assert safe("  a   b\n") == "a b"
