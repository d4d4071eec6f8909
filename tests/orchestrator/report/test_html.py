from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.report import html
from orchestrator.report.facts import load
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory
from tests.orchestrator.report.reading import Reader, page
from tests.orchestrator.report.synthetic import (
    DFLASH,
    DSPARK,
    FAILED,
    MODES,
    OTHER_QUANT,
    PLAIN,
    ArmLike,
    write_run,
)

LIMIT = 3_000_000
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"`\x1b[31m\u202e&amp;"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, (PLAIN, DFLASH, DSPARK, OTHER_QUANT, FAILED), slower=1.03)


@pytest.fixture(scope="module")
def made(run: RunDirectory) -> tuple[Reader, dict[str, Any], str]:
    text, result = page(run)
    return Reader(text), result, text


def test_numbers_on_the_page_are_those_of_the_result(
    made: tuple[Reader, dict[str, Any], str],
) -> None:
    reader, result, _ = made
    seen = 0
    columns = {
        "decode_tok_s": "Decode rate (tok/s)",
        "ttft_ms": "TTFT, median (ms)",
        "tpot_ms": "TPOT, median (ms)",
        "acceptance_length": "Acceptance length, pooled (tokens/step)",
        "step_time_ms": "Step time (ms)",
    }
    for arm in result["arms"]:
        for place, mode in enumerate(arm["modes"]):
            for name, column in columns.items():
                _, value = reader.table("Arms", str(place)).cell(arm["id"], column)
                assert value == mode["metrics"][name]["value"]
                seen += 1
    assert seen == 4 * 2 * len(columns)


def test_pairs_show_ratio_interval_and_factors(made: tuple[Reader, dict[str, Any], str]) -> None:
    reader, result, _ = made
    row = next(r for r in result["comparisons"] if r["a"] == "llamacpp-dspark" and r["ratio"])
    table = reader.table("Pairs", "0")
    pair = "llama.cpp with DSpark / plain llama.cpp"
    expected = {
        "ratio": row["ratio"],
        "95 % from": row["interval"][0],
        "to": row["interval"][1],
        "of throughput": row["throughput_ratio"],
        "tau factor": row["factors"]["tau"],
        "step-time factor": row["factors"]["step_time"],
    }
    assert {name: table.cell(pair, name)[1] for name in expected} == expected
    assert table.cell(pair, "verdict")[0] == row["verdict"] == "faster"


def test_a_refused_pair_shows_no_ratio_and_says_what_differs(
    made: tuple[Reader, dict[str, Any], str],
) -> None:
    reader, _, _ = made
    table = reader.table("Pairs", "0")
    pair = "vLLM with DSpark / llama.cpp with DSpark"
    assert table.cell(pair, "verdict")[0] == "refused"
    assert table.cell(pair, "ratio") == ("—", None)
    assert any("quantisation (nvfp4 / bf16)" in words for words in reader.words)


def test_a_failed_arm_is_named_with_its_reason(made: tuple[Reader, dict[str, Any], str]) -> None:
    reader, _, _ = made
    assert f"vllm-base failed: {FAILED.failure}" in reader.words
    assert reader.table("Arms", "0").cell("vllm-base", "Decode rate (tok/s)") == ("failed", None)


def test_a_dash_has_its_reason_in_print(made: tuple[Reader, dict[str, Any], str]) -> None:
    assert any(text.startswith("—: no speculation") for text in made[0].words)


def test_acceptance_stands_on_the_page_and_behind_the_plot(
    made: tuple[Reader, dict[str, Any], str],
) -> None:
    reader, result, _ = made
    told = result["arms"][2]["modes"][0]["speculation"]
    rows = [
        row
        for row in reader.table("Acceptance by position", "0").rows
        if row[0][0] == "llamacpp-dspark"
    ]
    assert [row[3][1] for row in rows] == told["marginal_acceptance"]
    assert [row[5][1] for row in rows] == told["conditional_acceptance"]
    drawn = json.loads(reader.scripts[0])["rows"]["marginal-greedy-1"]
    shares = [
        share
        for arm, share in zip(drawn["arm"], drawn["share"], strict=True)
        if arm == "llamacpp-dspark"
    ]
    assert shares == told["marginal_acceptance"]


def test_every_plot_has_a_text_and_a_table(made: tuple[Reader, dict[str, Any], str]) -> None:
    reader, _, text = made
    charts = json.loads(reader.scripts[0])["charts"]
    for name in charts:
        assert f'id="{name}" role="img" aria-label="' in text
    captions = {table.caption for table in reader.tables}
    assert {
        "Pairs",
        "Acceptance by position",
        "Decode rate of each prompt, tok/s",
        "Time to first token (TTFT) of each prompt, ms",
        "Time per output token (TPOT) of each prompt, ms",
        "Ratio of decode rates, prompt by prompt",
        "Turns, in the order they ran",
    } <= captions


def test_what_a_reader_looks_for_has_a_heading(tmp_path: Path) -> None:
    gpu = {"power_w": 412.5, "sm_mhz": {"median": 1755.0, "min": 1410.0}, "slowdowns": []}
    run = write_run(tmp_path / "run", (PLAIN, DFLASH, DSPARK), modes=MODES[:1], gpu=gpu)
    text, _ = page(run)
    headings = re.findall(r"<h3>(.+?)</h3>", text)
    wanted = [
        "How large, and how sure",
        "Acceptance by draft position",
        "Decode rate, prompt by prompt",
        "Both sides of each pair",
        "Latency",
        "Over the run, and drift",
        "The machine meanwhile",
        "Match certificate",
        "Greedy outputs, token for token",
        "Published claims",
        "Environment",
        "Patches",
        "Raw files",
        "How to run it again",
    ]
    assert [heading for heading in headings if heading in wanted] == wanted
    power = Reader(text).table("The machine meanwhile", "0").cell("llamacpp-base", POWER)
    assert power == ("412.5", 412.5)


POWER = "GPU power while busy (W)"


def test_the_page_links_only_to_files_beside_it(
    run: RunDirectory, made: tuple[Reader, dict[str, Any], str]
) -> None:
    reader, _, text = made
    links = [address for address in reader.addresses if not address.startswith(("#", "data:"))]
    assert links
    for link in links:
        assert link == "result.json" or (run.path / link).is_file()
    assert "default-src &#39;none&#39;" in text
    assert reader.handlers == []


def test_what_is_absent_has_no_section(made: tuple[Reader, dict[str, Any], str]) -> None:
    reader, _, _ = made
    heads = [text for text, _ in reader.table("The machine meanwhile", "0").rows[0]]
    assert not any("GPU" in head for head in heads)


def test_gpu_power_is_shown_where_it_was_seen(tmp_path: Path) -> None:
    seen = {"readings": 9, "sm_mhz": {"min": 1, "median": 1500, "max": 2}, "power_w": 312.5}
    run = write_run(tmp_path / "run", gpu={**seen, "slowdowns": ["power cap"]})
    table = Reader(page(run)[0]).table("The machine meanwhile", "0")
    assert table.cell("llamacpp-base", "GPU power while busy (W)") == ("312.5", 312.5)
    assert table.cell("llamacpp-base", "clocks lowered by") == ("power cap", None)


def test_claims_are_shown_for_their_model_only(
    tmp_path: Path, made: tuple[Reader, dict[str, Any], str]
) -> None:
    assert all(table.caption != "Published claims" for table in made[0].tables)
    run = write_run(tmp_path / "run", (PLAIN, DFLASH), weights="muse-glimmer-30b")
    table = Reader(page(run)[0]).table("Published claims")
    assert table.cell("seed-meta-llamacpp", "this run")[0] == "not comparable"
    assert "hardware" in table.cell("seed-meta-llamacpp", "differs in")[0]


def test_hostile_strings_are_text(tmp_path: Path) -> None:
    prompts = [f"{HOSTILE}{number}" for number in range(6)]
    run = write_run(
        tmp_path / "run",
        (PLAIN, DSPARK, ArmLike("x", "vllm", failure=HOSTILE)),
        prompts=prompts,
        recipe=HOSTILE,
        recipe_text=f"# {HOSTILE}\nschema: 1\n",
        title=HOSTILE,
        modes=[{**MODES[0], "name": HOSTILE}],
    )
    text, _ = page(run)
    reader = Reader(text)
    assert reader.tags.count("script") == 3
    assert "img" not in reader.tags
    assert reader.handlers == []
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert any("</script><script>alert(1)" in words for words in reader.words)
    assert json.loads(reader.scripts[0])["charts"]


def test_one_prompt(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DSPARK), prompts=["only"])
    text, result = page(run)
    reader = Reader(text)
    assert (
        reader.table("Arms", "0").cell("llamacpp-base", "Decode rate (tok/s)")[1]
        == (result["arms"][0]["modes"][0]["metrics"]["decode_tok_s"]["value"])
    )
    pair = "llama.cpp with DSpark / plain llama.cpp"
    assert reader.table("Pairs", "0").cell(pair, "conditions")[0].startswith("fewer than 5 prompts")
    assert not any("Grey band" in words for words in reader.words)


def test_only_a_failed_arm(tmp_path: Path) -> None:
    reader = Reader(page(write_run(tmp_path / "run", (FAILED,)))[0])
    assert any("Nothing was compared" in words for words in reader.words)


def test_blocks_are_pooled_and_shown_one_by_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DSPARK), blocks=3)
    text, result = page(run)
    reader = Reader(text)
    told = result["arms"][1]["modes"][0]
    assert len(told["blocks"]) == 3
    shown = [row[2][1] for row in reader.table("Block by block", "0").rows[1:]]
    assert shown[3:] == [block["decode_tok_s"] for block in told["blocks"]]
    turns = [row[1][0] for row in reader.table("Turns, in the order they ran", "0").rows[1:]]
    assert turns.count("measured, block 3") == 2
    assert turns[-1] == "again, for drift"
    # A prompt is one point of a pair and one row of a table, however often it was sent.
    assert len(json.loads(reader.scripts[0])["rows"]["pair-greedy-1-0"]["prompt"]) == 12
    assert len(reader.table("Decode rate of each prompt, tok/s", "0").rows) == 13
    assert reader.table("Spread over requests", "0").cell("llamacpp-base", "requests")[1] == 36


def test_long_and_short_prompts_are_told_apart(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DSPARK))
    path = run.turn("llamacpp-base", 1) / "samples.jsonl"
    lines = path.read_text("utf-8").splitlines()
    lines[0] = lines[0].replace('"prompt_tokens":8', '"prompt_tokens":5000')
    path.write_text("\n".join(lines) + "\n", "utf-8")
    text, result = page(run)
    table = Reader(text).table("By length of the prompt", "0")
    buckets = result["arms"][0]["modes"][0]["by_context"]
    assert [row[3][1] for row in table.rows[1:]] == [
        bucket["metrics"]["decode_tok_s"]["value"] for bucket in buckets
    ]
    assert table.rows[1][1][0] == "0 to 1,023"


def test_a_run_that_was_cut_off(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DFLASH, DSPARK))
    folder = run.turn("llamacpp-dspark", 1)
    (folder / "status.json").unlink()
    (folder / "counters.json").unlink()
    shutil.rmtree(run.turn("llamacpp-base", 2))
    reader = Reader(page(run)[0])
    assert any("This run is incomplete" in words for words in reader.words)
    assert any(words.startswith("llamacpp-dspark interrupted") for words in reader.words)
    head = [text for text, _ in reader.table("Decode rate of each prompt, tok/s", "0").rows[0]]
    assert head == ["prompt", "llamacpp-base", "llamacpp-dflash"]


def test_an_endless_interval_is_drawn_to_the_edge(run: RunDirectory) -> None:
    result = build(run)
    row = next(row for row in result["comparisons"] if row["ratio"] is not None)
    row["interval"] = [row["interval"][0], float("inf")]
    reader = Reader(html.render(load(run, result)))
    assert None in json.loads(reader.scripts[0])["rows"]["ratio-greedy-1"]["high"]


def test_five_thousand_prompts_stay_below_the_limit(tmp_path: Path) -> None:
    prompts = [f"prompt-{number}" for number in range(5000)]
    run = write_run(tmp_path / "run", (PLAIN, DSPARK), prompts=prompts, modes=MODES[:1])
    began = time.process_time()
    result = build(run)
    assert time.process_time() - began < 4  # about 1 on an idle machine
    text = html.render(load(run, result))
    assert len(text) < LIMIT
    reader = Reader(text)
    assert any("of 5000 prompts are drawn" in words for words in reader.words)
    row = reader.table("Spread over requests", "0").cell("llamacpp-base", "requests")
    assert row[1] == result["arms"][0]["modes"][0]["requests"] == 5000


def test_many_arms_and_phases_stay_below_the_limit(tmp_path: Path) -> None:
    arms = [
        ArmLike(f"{backend}-{speculation}", backend, speculation, 200.0)
        for backend in ("llamacpp", "vllm", "sglang")
        for speculation in ("none", "dflash", "dspark")
    ]
    modes = [{**MODES[0], "name": f"m{number}"} for number in range(6)]
    prompts = [f"prompt-{number}" for number in range(60)]
    text, _ = page(write_run(tmp_path / "run", arms, prompts=prompts, modes=modes))
    assert len(text) < LIMIT


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("env: {HF_TOKEN: abc, X: 1}", "env: {HF_TOKEN: [left out], X: 1}"),
        ("HF_TOKEN=abc museorch", "HF_TOKEN=[left out] museorch"),
        ("--api-key abc --port 1", "--api-key [left out] --port 1"),
        ('["--api-key", "abc"]', '["--api-key", "[left out]"]'),
        ("output_tokens: 128", "output_tokens: 128"),
        ("draft_tokens: [4, 8]", "draft_tokens: [4, 8]"),
        ("# one token a step", "# one token a step"),
    ],
)
def test_secrets_are_left_out(given: str, shown: str) -> None:
    assert html.without_secrets(given) == shown
