"""The pipeline under test is that of the worker's tests; one browser serves the tests of the pages in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.browser import open_browser
from tests.worker.conftest import make_pipeline

__all__ = ["browser", "make_pipeline"]


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[Chrome]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def browser(shared_browser: Chrome) -> Chrome:
    """The browser, without the language and the theme that an earlier test has chosen."""
    shared_browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    shared_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return shared_browser
