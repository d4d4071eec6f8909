"""The page in a real browser: it draws, it reacts, it fits, and it stays silent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from orchestrator.report import several_page
from orchestrator.result.build import build
from tests.orchestrator.report.reading import page_file
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

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = "needs chromium and chromedriver on PATH (Debian: chromium, chromium-driver)"
pytestmark = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING)
FLAGS = (
    "--headless",
    "--no-sandbox",  # a container's root may not use it
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
)


class Browser:
    """One page at a time."""

    def __init__(self, driver: Any) -> None:  # selenium is typed in part
        self.driver = driver

    def open(self, path: Path, *, width: int = 1280, theme: str = "light") -> None:
        """Returns when every plot is drawn."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(path.as_uri())
        self.drawn()

    def drawn(self) -> None:
        WebDriverWait(self.driver, 60).until(
            lambda _: self.js("return document.documentElement.dataset.drawn") == "yes"
        )

    def js(self, script: str, *given: Any) -> Any:
        return self.driver.execute_script(script, *given)

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def press(self, element: Any, key: str) -> None:
        """By keyboard only."""
        self.js("arguments[0].focus()", element)
        ActionChains(self.driver).send_keys(key).perform()

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arms = (PLAIN, DFLASH, DSPARK, OTHER_QUANT, FAILED)
    return page_file(write_run(tmp_path_factory.mktemp("page") / "run", arms))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_draws_fits_and_is_silent(browser: Browser, page: Path, width: int, theme: str) -> None:
    browser.open(page, width=width, theme=theme)
    wide = browser.js("return document.documentElement.scrollWidth")
    assert wide <= width
    plots = [plot for plot in browser.all(".plot") if plot.is_displayed()]
    assert len(plots) == 10
    for plot in plots:
        svg = plot.find_element(By.TAG_NAME, "svg")
        assert svg.size["width"] > 200
        assert svg.size["width"] <= plot.size["width"] + 1
    assert browser.console() == []


def test_paper_holds_every_column_and_says_what_it_leaves_out(browser: Browser, page: Path) -> None:
    browser.open(page, width=720)  # A4 between Chromium's margins
    media = "Emulation.setEmulatedMedia"
    browser.driver.execute_cdp_cmd(media, {"media": "print"})
    tables = [table for table in browser.all("section table") if table.is_displayed()]
    assert max(table.rect["x"] + table.rect["width"] for table in tables) <= 720
    assert "one of 2: greedy, 1 at a time; temperature, 1 at a time" in browser.find("main").text
    browser.driver.execute_cdp_cmd(media, {"media": ""})


def test_the_page_asks_the_network_for_nothing(browser: Browser, page: Path) -> None:
    browser.open(page)
    asked = browser.js("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in asked if not name.startswith("data:")] == []


def test_the_mode_is_chosen_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)

    def heads() -> list[str]:
        return [head.text for head in browser.all("section h2") if head.is_displayed()]

    assert heads() == ["greedy: T 0; 1 request at a time"]
    browser.press(browser.find("input[name=phase]:checked"), Keys.ARROW_RIGHT)
    browser.drawn()
    assert heads() == ["temperature: T 1, top-p 0.95, top-k 64; 1 request at a time"]
    assert browser.find("#marginal-temperature-1 svg").is_displayed()
    assert browser.console() == []


def test_an_arm_is_left_out_of_plots_and_tables(browser: Browser, page: Path) -> None:
    browser.open(page)
    points = "#marginal-greedy-1 svg .mark-symbol.role-mark path"
    before = len(browser.all(points))
    row = browser.find("tr[data-arm=llamacpp-dspark]")
    assert row.is_displayed()
    browser.press(browser.find("input[name=arm][value=llamacpp-dspark]"), Keys.SPACE)
    WebDriverWait(browser.driver, 30).until(lambda _: len(browser.all(points)) < before)
    assert len(browser.all(points)) == before - 4
    assert not row.is_displayed()
    assert browser.find(f"tr[data-arm={FAILED.id}]").is_displayed()
    browser.drawn()


def test_dark_mode_by_its_button(browser: Browser, page: Path) -> None:
    browser.open(page)
    paper = "return getComputedStyle(document.body).backgroundColor"
    line = (
        "return document.querySelector('#marginal-greedy-1 .mark-line path').getAttribute('stroke')"
    )
    light, colour = browser.js(paper), browser.js(line)
    button = browser.find("#theme")
    assert button.text == "Dark mode"
    browser.press(button, Keys.ENTER)
    WebDriverWait(browser.driver, 30).until(lambda _: browser.js(line) != colour)
    assert (light, browser.js(paper)) == ("rgb(255, 255, 255)", "rgb(21, 24, 29)")
    assert button.text == "Light mode"
    browser.drawn()


def test_a_tooltip_names_the_prompt_as_text(browser: Browser, tmp_path: Path) -> None:
    prompts = [f"{HOSTILE}{number}" for number in range(6)]
    run = write_run(tmp_path / "run", (PLAIN, DSPARK), prompts=prompts, recipe=HOSTILE)
    browser.open(page_file(run))
    point = browser.all("#pair-greedy-1-0 svg .mark-symbol.role-mark path")[0]
    browser.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", point)
    ActionChains(browser.driver).move_to_element(point).perform()
    tooltip = WebDriverWait(browser.driver, 30).until(
        lambda _: next(iter(browser.all("#vg-tooltip-element.visible")), None)
    )
    assert "</script>" in tooltip.text
    assert tooltip.find_elements(By.TAG_NAME, "img") == []
    assert browser.driver.title == f"{HOSTILE} · museorch"
    assert browser.console() == []


def test_a_table_opens_behind_its_plot(browser: Browser, page: Path) -> None:
    browser.open(page)
    summary = browser.find("section:not([hidden]) details summary")
    table = browser.find("section:not([hidden]) details table")
    assert not table.is_displayed()
    browser.press(summary, Keys.ENTER)
    assert table.is_displayed()


@pytest.mark.parametrize(
    ("arms", "prompts"),
    [
        ((PLAIN, DSPARK), 1),
        ((FAILED,), 3),
        ((PLAIN, OTHER_QUANT), 8),
        ((ArmLike("a-plain-arm-with-a-name-that-is-rather-long-for-a-phone"), DSPARK), 1500),
    ],
    ids=["one prompt", "nothing measured", "refused", "many prompts"],
)
def test_other_runs_draw_and_fit_a_phone(
    browser: Browser, tmp_path: Path, arms: tuple[ArmLike, ...], prompts: int
) -> None:
    names = [f"prompt-{number}" for number in range(prompts)]
    browser.open(
        page_file(write_run(tmp_path / "run", arms, prompts=names, modes=MODES[:1])), width=390
    )
    assert browser.js("return document.documentElement.scrollWidth") <= 390
    assert browser.console() == []


def test_several_runs_draw_fit_and_are_filtered(browser: Browser, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, (PLAIN, DSPARK)) for name in ("early", "late")]
    path = tmp_path / "page.html"
    path.write_text(several_page.render([(run, build(run)) for run in runs]), encoding="utf-8")
    browser.open(path, width=390, theme="dark")
    assert browser.js("return document.documentElement.scrollWidth") <= 390
    points = "#between-greedy-1 svg .mark-symbol.role-mark path"
    assert len(browser.all(points)) == 2
    browser.press(browser.find("input[name=arm][value=llamacpp-dspark]"), Keys.SPACE)
    WebDriverWait(browser.driver, 30).until(lambda _: len(browser.all(points)) == 1)
    browser.drawn()
    assert browser.console() == []
