"""A real browser for the tests of the pages: Debian's chromium, driven by its own chromium-driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service as Driver

from tests.waiting import wait_until

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SHOWN_S = 20.0
"""For a page to show what it is to show."""
NO_BROWSER = "no chromium with its chromedriver is here (apt install chromium chromium-driver)"
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


def can_run_browser() -> bool:
    """Return whether chromium and its driver are installed."""
    return CHROMIUM is not None and CHROMEDRIVER is not None


@contextmanager
def open_browser() -> Iterator[Chrome]:
    """Open a browser without a window, and close it. What its console says is kept."""
    options = ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=Driver(CHROMEDRIVER))
    try:
        yield browser
    finally:
        browser.quit()


def resize(browser: Chrome, width: int, height: int) -> None:
    """Give the page a size in pixels."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def console(browser: Chrome) -> list[str]:
    """Return, once, what the console said: errors of scripts, refused contents, failed requests."""
    return [str(entry["message"]) for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call] # selenium says no type


def wait_loaded(browser: Chrome, address: str, limit_s: float = SHOWN_S) -> None:
    """Open a page, and wait until its scripts have run; what the console said before is forgotten."""
    console(browser)
    browser.get(address)
    wait_until(lambda: bool(browser.execute_script("return document.readyState === 'complete'")), limit_s, address)


def shown(browser: Chrome, selector: str) -> str:
    """Return the text of an element as a reader sees it."""
    return str(browser.find_element("css selector", selector).text)
