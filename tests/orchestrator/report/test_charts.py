from __future__ import annotations

import json
from pathlib import Path

import pytest
import vl_convert

from orchestrator.report import charts
from orchestrator.report.chart import Chart, log_ticks
from orchestrator.report.facts import RunFacts, load, quantile
from orchestrator.report.pair_charts import ratios, scatters
from orchestrator.report.palette import DARK, LIGHT, SHAPES, Theme, config
from orchestrator.report.request_charts import timeline
from orchestrator.result.build import build
from orchestrator.rundir import write_json
from tests.orchestrator.report.synthetic import DFLASH, DSPARK, PLAIN, write_run

PHASE = ("greedy", 1)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> RunFacts:
    run = write_run(tmp_path_factory.mktemp("runs") / "run", (PLAIN, DFLASH, DSPARK), slower=1.02)
    return load(run, build(run))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 2.8, [0.1, 0.2, 0.5, 1, 2]),
        (400, 5500, [500, 1000, 2000, 5000]),
        (0.82, 1.04, [0.85, 0.9, 0.95, 1]),
        (1, 1000, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]),
    ],
)
def test_a_logarithmic_axis_has_round_numbers(
    low: float, high: float, expected: list[float]
) -> None:
    assert log_ticks(low, high) == pytest.approx(expected)


def drawn(facts: RunFacts) -> list[Chart]:
    return [chart for place in charts.of_phase(facts, PHASE).values() for chart in place]


def test_every_chart_is_drawn_without_a_browser_too(facts: RunFacts) -> None:
    found = drawn(facts)
    assert len(found) == 10
    for chart in found:
        spec = {**chart.whole(), "width": 600, "autosize": "pad"}
        svg = vl_convert.vegalite_to_svg(json.dumps(spec), config=config(LIGHT))
        assert svg.count("<path") > len(chart.rows)
        assert "NaN" not in svg
        assert chart.describe


def test_the_ratio_chart_holds_the_result(facts: RunFacts) -> None:
    chart = ratios(facts, PHASE)
    assert chart is not None
    assert {(row["ratio"], row["low"], row["high"]) for row in chart.rows} == {
        (row["ratio"], *row["interval"])
        for row in facts.result["comparisons"]
        if row["mode"] == "greedy"
    }
    band = chart.spec["layer"][0]["data"]["values"][0]
    assert band["to"] == pytest.approx(1.02, rel=1e-3)


def test_points_are_paired_by_prompt(facts: RunFacts) -> None:
    first = next(scatters(facts, PHASE))
    turns = {turn.arm: turn for turn in facts.of(PHASE)}
    rates = {p.prompt: p.tok_s for p in turns["llamacpp-dflash"].points}
    assert len(first.rows) == 12
    for row in first.rows:
        assert row["a"] == pytest.approx(rates[row["prompt"]], rel=1e-4)


def test_no_timeline_over_two_clocks(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (PLAIN, DSPARK))
    status = run.turn("llamacpp-base", 2) / "status.json"
    data = json.loads(status.read_text("utf-8"))
    write_json(status, {**data, "started": "2026-11-29T00:00:00Z"})
    facts = load(run, build(run))
    assert not facts.one_clock
    assert timeline(facts, PHASE) is None


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 4.0], [float(n) for n in range(101)]])
def test_quantiles_by_linear_interpolation(values: list[float]) -> None:
    import numpy as np

    for share in (0.0, 0.05, 0.5, 0.77, 1.0):
        assert quantile(values, share) == pytest.approx(np.quantile(values, share))


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_stand_out_from_the_background(theme: Theme) -> None:
    """3:1 for graphics and 4.5:1 for text, as WCAG 2.2 asks (1.4.11 and 1.4.3)."""
    for colour in theme.arms:
        assert contrast(colour, theme.background) >= 3
    for colour in (theme.text, theme.faint):
        assert contrast(colour, theme.background) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_colour_and_shape_are_shared_by_no_two_arms(theme: Theme) -> None:
    assert len(set(theme.arms)) == len(theme.arms)
    assert "stroke" not in SHAPES, "a filled stroke is not seen"
    looks = [(theme.arms[n % len(theme.arms)], SHAPES[n % len(SHAPES)]) for n in range(60)]
    assert len(set(looks)) == 60


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
