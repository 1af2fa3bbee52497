"""Makes the pictures of the pages for the documentation: ``python -m tests.serve.screenshots``.

It needs chromium, and a font with ideographs (Debian's fonts-noto-cjk).

A group in memory is shown, whose stream is the sample of ``make demo``. With a folder as its argument every page is
pictured at 1280 and 390 pixels, in both themes and languages, under a stream, without one, while the log is read, and
with a broken backend; Check with texts that somebody pasted, one of them hostile: to be looked at, not to be kept.
"""

from __future__ import annotations

import base64
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

from stream_dedup.dev.stream import SampleStream
from stream_dedup.ports import PassingError
from stream_dedup.serve.pages.backend import ErrorKind, PageBackend, ShownError, StatusView
from stream_dedup.serve.pages.rendering import LANGUAGES, said
from tests.browser import NO_BROWSER, SHOWN_S, can_run_browser, open_browser, resize
from tests.serve.page_scene import PageScene, record_value
from tests.serve.test_pages import HOSTILE
from tests.waiting import wait_until

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DOCUMENTED = {
    "page-check": ("/check?sample=1", 1280, "en", "light"),
    "page-clusters": ("/clusters?window=hour", 1280, "en", "light"),
    "page-live": ("/live", 1280, "en", "dark"),
    "page-system": ("/system", 1280, "en", "light"),
    "page-check-zh": ("/check?sample=1", 390, "zh", "dark"),
}
"""Pictures of the documentation: path, width, language, theme."""
FORMS = ((1280, "en", "light"), (1280, "zh", "dark"), (390, "zh", "light"), (390, "en", "dark"))
HEIGHT, MOST_HEIGHT = 800, 1000
ARTICLES = 700
HOURS = 1.2
LIVE_S = 6.0
READ = 40
"""Records of a log that are read, where it is read half."""
SETTLE_S = 0.4
"""Charts are drawn after the page."""


def status_values(articles: int) -> dict[str, Any]:
    """The group as its brokers would describe it: one worker that keeps up."""
    partitions = [
        {"topic": "articles", "partition": at, "first": 0, "end": articles + at, "committed": articles + at - 2 * at}
        | {"of_another_topic": False, "lag": 2 * at}
        for at in range(2)
    ]
    names = [f"articles-{at}" for at in range(2)]
    return {
        "group": "news",
        "state": "Stable",
        "lag": 2,
        "articles_per_second": 6.3,
        "workers": [{"client_id": "news-worker-1", "host": "10.0.0.7", "instance_id": None, "partitions": names}],
        "partitions": partitions,
        "log": {"topic": "news.fingerprints", "exists": True, "first": 0, "end": 61, "size_bytes": 205_112}
        | {"last_record_ms": int(time.time() * 1000)},
        "findings": [],
    }


class Photographer:
    """A browser over one service."""

    def __init__(self, browser: Chrome, scene: PageScene, *, goes_on: bool = True) -> None:
        self._browser = browser
        self._scene = scene
        self._goes_on = goes_on
        self._records = iter(SampleStream(6))
        self._address = f"http://127.0.0.1:{scene.port}"

    def picture(
        self, path: str, width: int, language: str, theme: str, most: int = MOST_HEIGHT, pasted: str = ""
    ) -> bytes:
        """Return a page as PNG, up to ``most`` pixels high; with ``pasted`` the answer for this text."""
        browser = self._browser
        resize(browser, width, HEIGHT)
        browser.get(f"{self._address}/assets/pages.css")
        browser.delete_all_cookies()
        for name, value in (("language", language), ("theme", theme)):
            browser.add_cookie({"name": name, "value": value})
        browser.get(self._address + path)
        if pasted:
            self._paste(pasted)
        if path == "/live":
            self._stream()
        height = int(browser.execute_script("return document.body.scrollHeight"))
        resize(browser, width, min(max(height, HEIGHT // 2), most))
        time.sleep(SETTLE_S)
        return base64.b64decode(browser.get_screenshot_as_base64())

    def _paste(self, text: str) -> None:
        browser = self._browser
        browser.execute_script(
            "document.querySelector('textarea').value = arguments[0]; document.querySelector('.check').requestSubmit()",
            text,
        )
        wait_until(lambda: bool(browser.find_elements("css selector", "#verdict")), SHOWN_S, "the verdict")

    def _stream(self) -> None:
        """Let the stream go on for some seconds, if there is one: rates need it."""
        until = time.monotonic() + LIVE_S
        while time.monotonic() < until:
            if self._goes_on:
                self._scene.judge([next(self._records).value], latency_ms=random.Random().randint(18, 90))
            time.sleep(0.2)

    def first_cluster(self) -> str:
        """Return the path of the page of the largest cluster."""
        self._browser.get(f"{self._address}/clusters?window=day")
        found = self._browser.find_elements("css selector", "td.what a")
        return str(found[0].get_attribute("href")).removeprefix(self._address) if found else "/clusters/none"


@contextmanager
def running_scene(articles: int) -> Iterator[PageScene]:
    """Run a service over the sample stream of the last hour, which goes on."""

    async def described(_: PageBackend) -> StatusView:
        return StatusView(status_values(articles))

    own, PageBackend.status = PageBackend.status, described  # type: ignore[method-assign,assignment] # there is no broker
    chance, now = random.Random(5), int(time.time() * 1000)
    with tempfile.TemporaryDirectory() as folder:
        scene = PageScene(Path(folder), match={"recrawl": "update"}, kafka={"group": "news"})
        records = [one.value for one in islice(SampleStream(4), articles)]
        times = sorted(now - int(chance.random() ** 2 * HOURS * 3_600_000) for _ in records)
        if records:
            samples = [record_value(f"harbour-{one}", said(one, "check.sample")[:-9]) for one in LANGUAGES]
            scene.judge(samples, [times[0]] * len(samples))
        for at in range(0, len(records), 20):
            scene.judge(records[at : at + 20], times[at : at + 20], chance.randint(18, 90))
        with scene.shown():
            yield scene
        scene.close()
    PageBackend.status = own  # type: ignore[method-assign] # as above


@contextmanager
def reading_scene() -> Iterator[PageScene]:
    """Run a service that is half way through a log."""
    with tempfile.TemporaryDirectory() as folder:
        scene = PageScene(Path(folder), kafka={"broker_wait_s": 600})
        for record in islice(SampleStream(4), 2 * READ):
            scene.judge([record.value])
        scene.limit_reading(READ)
        with scene.serve(until_ready=False):
            wait_until(lambda: scene.polls == READ, SHOWN_S, "half of the log is read")
            yield scene
        scene.close()


def write_documented(folder: Path) -> None:
    """Write the pictures of the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser, running_scene(ARTICLES) as scene:
        photographer = Photographer(browser, scene)
        for name, (path, width, language, theme) in DOCUMENTED.items():
            (folder / f"{name}.png").write_bytes(photographer.picture(path, width, language, theme))


def write_all(folder: Path) -> None:
    """Write every page in every form."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser:
        with running_scene(ARTICLES) as scene:
            photographer = Photographer(browser, scene)
            _write(photographer, folder, "load", [photographer.first_cluster()])
            scene.judge([record_value("hostile", HOSTILE)])
            scene.wait_ready()
            edited = {one: said(one, "check.sample")[len(one) :] for one in LANGUAGES} | {"hostile": f"{HOSTILE} again"}
            for name, text in edited.items():
                for width, language, theme in FORMS:
                    picture = photographer.picture("/check", width, language, theme, 2400, text)
                    (folder / f"pasted-{name}-{width}-{language}-{theme}.png").write_bytes(picture)
            _break(scene)
            _write(Photographer(browser, scene, goes_on=False), folder, "broken", [])
            scene.connection.hook = lambda *_: None
        with reading_scene() as scene:
            _write(Photographer(browser, scene, goes_on=False), folder, "reading", [])
        with running_scene(0) as scene:
            _write(Photographer(browser, scene, goes_on=False), folder, "idle", [])


def _write(photographer: Photographer, folder: Path, state: str, more: list[str]) -> None:
    for path in ("/check", "/check?sample=1", "/clusters?window=day", "/live", "/system", *more):
        name = (
            "cluster" if path in more else path.strip("/").partition("?")[0] + ("-sample" if "sample" in path else "")
        )
        for width, language, theme in FORMS:
            picture = photographer.picture(path, width, language, theme, 2400)
            (folder / f"{state}-{name}-{width}-{language}-{theme}.png").write_bytes(picture)


def _break(scene: PageScene) -> None:
    """Let no broker answer any more."""

    async def silent(_: PageBackend) -> StatusView:
        return StatusView(None, ShownError(ErrorKind.LATE))

    def away(call: str, _: object) -> None:
        if not call.endswith(".close"):
            raise PassingError(call)

    PageBackend.status = silent  # type: ignore[method-assign,assignment] # as above
    scene.connection.hook = away
    wait_until(lambda: "no broker" in scene.position().detail, 60, "the service has noticed it")


def main() -> None:
    """Write what was asked for."""
    if not can_run_browser():
        sys.exit(NO_BROWSER)
    if sys.argv[1:]:
        write_all(Path(sys.argv[1]))
    else:
        write_documented(IMAGES)


if __name__ == "__main__":
    main()
