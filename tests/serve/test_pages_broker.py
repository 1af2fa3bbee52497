"""Pages that are open in a browser while the broker is killed, and started again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome

from stream_dedup.dev.broker import DevBroker
from stream_dedup.serve.pages.rendering import said
from tests.browser import NO_BROWSER, can_run_browser, console, shown, wait_loaded
from tests.serve.comparing import served
from tests.serve.test_pages import EDITED, FIRST
from tests.waiting import wait_until
from tests.worker.pipeline import pipeline

pytestmark = [
    pytest.mark.skipif(not can_run_browser(), reason=NO_BROWSER),
    # Half of the time of all tests in the browser. test_pages_browser shows the same with a broker in memory that does
    # not answer, and test_page_states the marks of old values.
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
PAGES = ("/live", "/system")
NOTICED_S = 60.0
"""For a page to show that the broker is away, or back: the service notices after five seconds, workers join again."""
NOTICE = said("en", "notice.broker.title")
OLD = said("en", "old", time="").removesuffix(" UTC")
"""Begins what marks values as old."""
VALUES = {"/live": "#figure-lag", "/system": 'section[aria-labelledby="partitions"] tbody'}
"""What the brokers said, on each page."""
MARKED = {"/live": "#figures", "/system": "#system"}
"""The part that a mark of old values is in."""


def record(name: str, text: str) -> tuple[bytes, bytes]:
    return name.encode(), json.dumps({"id": name, "text": text}).encode()


class OpenPages:
    """A window for each page; none is loaded twice."""

    def __init__(self, browser: Chrome, port: int) -> None:
        self._browser = browser
        self._first = browser.current_window_handle
        self._windows: dict[str, str] = {}
        for path in PAGES:
            browser.switch_to.new_window("window")
            self._windows[path] = browser.current_window_handle
            wait_loaded(browser, f"http://127.0.0.1:{port}{path}")
            browser.execute_script("window.loaded_once = true")

    def text(self, path: str, selector: str) -> str:
        """What is seen in a window; empty while an element is replaced."""
        self._browser.switch_to.window(self._windows[path])
        try:
            return shown(self._browser, selector)
        except StaleElementReferenceException:
            return ""

    def wait(self, path: str, selector: str, holds: Callable[[str], bool], what: str) -> None:
        wait_until(lambda: holds(self.text(path, selector)), NOTICED_S, f"{path}: {what}")

    def old_parts(self, path: str) -> int:
        """The parts of a page whose values are marked as old."""
        self._browser.switch_to.window(self._windows[path])
        return len(self._browser.find_elements("css selector", ".old"))

    def close(self) -> None:
        """Close the windows; none was loaded again, and no script failed."""
        for window in self._windows.values():
            self._browser.switch_to.window(window)
            assert self._browser.execute_script("return window.loaded_once")
            assert console(self._browser) == []
            self._browser.close()
        self._browser.switch_to.window(self._first)


def test_open_pages_over_a_broker_that_is_killed(browser: Chrome, own_broker: DevBroker, tmp_path: Path) -> None:
    """They say that no broker answers and keep their last values, marked as old; with the broker they go on."""
    with pipeline(own_broker.bootstrap, tmp_path, "pages") as made:
        worker = made.start()
        made.produce([record("first", FIRST), record("edited", EDITED)])
        made.wait_done()
        with served(made) as service:
            pages = OpenPages(browser, service.port)
            pages.wait("/live", "#verdicts", lambda text: "edited" in text, "the verdicts")
            pages.wait("/live", "#figure-lag", lambda text: text == "0", "the lag")
            pages.wait("/system", "#system", lambda text: "pages-articles-0" in text, "the partitions")
            before = {path: pages.text(path, selector) for path, selector in VALUES.items()}
            assert [pages.old_parts(path) for path in PAGES] == [0, 0]
            own_broker.kill()
            for path, selector in VALUES.items():
                pages.wait(
                    path, "#notices", lambda text: said("en", "notice.broker.title") in text, "no broker answers"
                )
                pages.wait(path, MARKED[path], lambda text: OLD in text, "the values are old")
                assert pages.old_parts(path) > 0
                assert pages.text(path, selector) == before[path]
                assert pages.text(path, "#state") == said("en", "state.broker")
            own_broker.restart()
            made.produce([record("later", EDITED)])
            pages.wait("/live", "#verdicts", lambda text: "later" in text, "the next verdict")
            for path in PAGES:
                pages.wait(path, "#notices", lambda text: text == "", "the broker answers")
                pages.wait(
                    path, MARKED[path], lambda text: bool(text) and OLD not in text, "the values are those of now"
                )
                assert pages.old_parts(path) == 0
            pages.wait("/system", VALUES["/system"], lambda text: " 3 3 0" in text, "the offsets")
            pages.close()
        made.stop(worker)
