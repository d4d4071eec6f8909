"""The pictures of README.md, from a run: its report in a browser, and its terminal output.

    python -m tools.pictures RUN

Needs chromium and chromedriver on PATH, as the browser tests do.
"""

from __future__ import annotations

import base64
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from orchestrator.report import html, terminal
from orchestrator.report.facts import load
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
WIDTH, HEIGHT, SCALE = 1280, 1640, 0.7
BLOCKS = 3
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def main(path: Path) -> None:
    run = RunDirectory.open(path)
    result = build(run)
    _terminal(terminal.render(result))
    _report(html.render(load(run, result)))


def _terminal(text: str) -> None:
    """The heading, the first table and its verdicts."""
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(Text("\n\n".join(text.split("\n\n")[:BLOCKS])))
    picture = console.export_svg(title="museorch compare tiny-muse/demo")
    # Without the fonts it would fetch: the picture asks the network for nothing.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (FOLDER / "terminal.svg").write_text(picture, encoding="utf-8")


def _report(page: str) -> None:
    """The top of the page."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.html"
            file.write_text(page, encoding="utf-8")
            _shoot(driver, file)
    finally:
        driver.quit()


def _shoot(driver: webdriver.Chrome, file: Path) -> None:
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(file.as_uri())
    WebDriverWait(driver, 60).until(
        lambda _: driver.execute_script("return document.documentElement.dataset.drawn") == "yes"
    )
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": SCALE}
    asked = {"format": "webp", "quality": 60, "clip": clip}
    told = driver.execute_cdp_cmd("Page.captureScreenshot", asked)
    (FOLDER / "report.webp").write_bytes(base64.b64decode(told["data"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
