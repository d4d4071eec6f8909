"""A wrong recipe gets one line that says what, where and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends.errors import InputError
from orchestrator.job import prepare
from tests.recipes_for_tests import recipe_data, write_recipe


def complaint(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        prepare(str(path))
    message = caught.value.message
    assert "\n" not in message
    return message


def changed(folder: Path, text: str, replacement: str) -> Path:
    path = write_recipe(folder, recipe_data(folder))
    before = path.read_text(encoding="utf-8")
    assert before.count(text) == 1
    path.write_text(before.replace(text, replacement), encoding="utf-8")
    return path


def line_of(path: Path, text: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize(
    ("text", "replacement", "said"),
    [
        ("speculation: dflash", "speculatoin: dflash", 'Did you mean "speculation"?'),
        ("speculation: dflash", "speculation: dflsh", 'Did you mean "dflash"?'),
        ("speculation: dflash", "speculation: dflash\n  draft_tokens: -3", "greater than or equal"),
        ("speculation: dflash", "speculation: dflash\n  draft_tokens: 9", "K 9 is above the 7"),
        ("speculation: dflash", "draft_tokens: 4", "draft_tokens is set, but speculation is none"),
        ("speculation: dflash", "quantisation: q4_k_m", "no gguf weights in q4_k_m"),
        ("  count: 6", "  count: 60", "holds 6 prompts, but workload.count asks for 60"),
        ("  count: 6", "  cuont: 6", 'Did you mean "count"?'),
        ("stop: fixed", "stop: never", "'fixed' or 'natural'"),
        ("- greedy", "- greddy", 'mode "greddy" is not known'),
        ("model: toy.yaml", "model: tiny-mose", 'Did you mean "tiny-muse"?'),
        ("output_tokens: 12", "output_tokens: 62", "does not fit a context of 64"),
        ("output_tokens: 12", "output_tokens: 1e3", "should be a valid integer (found 1000.0)."),
        ("  count: 6", "  count: '6'", "should be a valid integer (found '6')."),
        ("model: toy.yaml", "model: 30", "should be a valid string (found 30). Put it in quotes."),
        ("model: toy.yaml", "model: tiny-mose", ":3: model: unknown model"),
        ("prompts: prompts.jsonl", "prompts: nope", ":9: workload.prompts: no prompt set"),
        ("prompts: prompts.jsonl", "prompts: {randm: 4}", 'randm: unknown field. Did you mean "ra'),
        ("prompts: prompts.jsonl", "prompts: {random: x}", "prompts.random: should be a valid int"),
        ("- greedy", "- {name: greedy, temperature: 1}", "greedy has temperature 0"),
        ("- greedy", "- {name: a, temperature: .nan}", "should be a finite number (found nan)."),
        ("- greedy", "- [greedy]", "modes[0]: should be a mapping of fields."),
        ("context_length: 64", "context_length: 257", "a context of 257 is above the 256 of toy."),
        (
            "speculation: dflash",
            "speculation: dflash\n  acceptance: {length: 20}",
            "arms[1]: a simulated acceptance length of 20 is not within 1 to 8.",
        ),
        ("    executable: ", "    version: x\n    executable: ", "'x' is not a version number."),
        ("device: cpu", "allow: [quantization]\ndevice: cpu", 'Did you mean "quantisation"?'),
    ],
)
def test_a_wrong_field_is_named_with_its_line(
    tmp_path: Path, text: str, replacement: str, said: str
) -> None:
    path = changed(tmp_path, text, replacement)
    assert said in complaint(path)


def test_the_line_is_that_of_the_field(tmp_path: Path) -> None:
    path = changed(tmp_path, "speculation: dflash", "speculatoin: dflash")
    line = line_of(path, "speculatoin")
    assert complaint(path).startswith(f"{path}:{line}: arms[1].speculatoin: unknown field.")


def test_an_unknown_backend(tmp_path: Path) -> None:
    data = recipe_data(tmp_path, arms=[{"backend": "vlm"}])
    path = write_recipe(tmp_path, data)
    message = complaint(path)
    assert f"{path}:{line_of(path, 'backend: vlm')}" in message
    assert 'Did you mean "vllm"?' in message


def test_two_arms_of_one_name(tmp_path: Path) -> None:
    data = recipe_data(tmp_path, arms=[{"backend": "llamacpp"}, {"backend": "llamacpp"}])
    assert 'two arms are called "llamacpp-base"' in complaint(write_recipe(tmp_path, data))


def test_a_missing_gguf(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, recipe_data(tmp_path))
    (tmp_path / "dflash.gguf").unlink()
    message = complaint(path)
    assert "no such GGUF file" in message
    assert "dflash.gguf" in message


def test_an_empty_prompt_file(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, recipe_data(tmp_path))
    (tmp_path / "prompts.jsonl").write_text("\n\n", encoding="utf-8")
    assert "holds no prompts" in complaint(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not a JSON object"),
        ('{"id": "a"}', "needs an id and one of"),
        ('{"id": "a", "token_ids": [0, 100]}', "outside the vocabulary of 100"),
        ('{"id": "a", "token_ids": [true]}', "outside the vocabulary of 100"),
        ('{"id": "a", "token_ids": []}', "at least one token id"),
        ('{"id": "a", "token_ids": [0], "seed": 1}', 'unknown field "seed"'),
        ('{"id": "a", "text": "hello"}', "names no tokenizer"),
    ],
)
def test_a_bad_prompt_is_named_with_its_line(tmp_path: Path, row: str, said: str) -> None:
    path = write_recipe(tmp_path, recipe_data(tmp_path, prompts=1))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n" + row + "\n", encoding="utf-8")
    message = complaint(path)
    assert message.startswith(f"{prompts}:2: ")
    assert said in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"arms: [a, b\nname: x", "not valid YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"just words", "expected a mapping"),
        (b"", "found nothing"),
        (b"name: a\nname: b", "given twice"),
        (b"a: &a [*a]", "loop"),
    ],
)
def test_what_is_no_recipe(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(content)
    assert said in complaint(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "no such file" in complaint(tmp_path / "absent.yaml")
    assert "is a folder" in complaint(tmp_path)


def test_lists_expand_to_their_product(tmp_path: Path) -> None:
    arms: list[dict[str, Any]] = [
        {
            "backend": "llamacpp",
            "speculation": ["none", "dflash", "dspark"],
            "draft_tokens": [3, 7],
        }
    ]
    job = prepare(str(write_recipe(tmp_path, recipe_data(tmp_path, arms=arms))))
    assert [(arm.id, arm.draft_tokens) for arm in job.arms] == [
        ("llamacpp-base", None),
        ("llamacpp-dflash-k3", 3),
        ("llamacpp-dflash-k7", 7),
        ("llamacpp-dspark-k3", 3),
        ("llamacpp-dspark-k7", 7),
    ]


def test_k_defaults_to_what_the_drafter_was_trained_for(tmp_path: Path) -> None:
    arms = [{"backend": "llamacpp", "speculation": ["dflash", "dspark"]}]
    job = prepare(str(write_recipe(tmp_path, recipe_data(tmp_path, arms=arms))))
    assert [arm.draft_tokens for arm in job.arms] == [7, 8]
    assert [item.plan.draft_tokens for item in job.planned] == [7, 7]  # clamped by llama.cpp


def test_every_arm_gets_the_same_requests(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, recipe_data(tmp_path))
    assert prepare(str(path)).prompts == prepare(str(path)).prompts
