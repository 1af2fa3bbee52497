"""The pages in a real browser: with and without a stream, with a broken backend, hostile text, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from stream_dedup.ports import PassingError
from stream_dedup.serve.pages.backend import StatusView
from stream_dedup.serve.pages.connecting import ServicePages
from stream_dedup.serve.pages.strings import said
from tests.browser import NO_BROWSER, can_run_browser, console, open_browser, resize
from tests.serve.page_scene import PageScene, record_value
from tests.serve.test_pages import EDITED, FIRST, HOSTILE, HOSTILE_ID, hostile_group
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(not can_run_browser(), reason=NO_BROWSER), pytest.mark.slow, pytest.mark.timeout(300)]
SHOWN_S = 20.0
PATHS = ("/check", "/check?sample=1", "/groups?window=all", "/live", "/system")
WELL = {
    "group": "group",
    "state": "Stable",
    "lag": 12,
    "articles_per_second": 3.5,
    "workers": [{"client_id": "group-1", "host": "127.0.0.1", "instance_id": None, "partitions": ["articles-0"]}],
    "partitions": [
        {
            "topic": "articles",
            "partition": 0,
            "first": 0,
            "end": 12,
            "committed": None,
            "of_another_topic": False,
            "lag": 12,
        }
    ],
    "log": {
        "topic": "group.fingerprints",
        "exists": True,
        "first": 0,
        "end": 3,
        "size_bytes": 2048,
        "last_record_ms": 0,
    },
    "findings": [{"text": "topic <b>x</b>", "remedy": "mend it", "is_note": False}],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageScene]:
    """A service over a stream with two stories, one of them hostile; the brokers' description is chosen."""

    async def well(_: ServicePages) -> StatusView:
        return StatusView(WELL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServicePages, "status", well)
        made = PageScene(tmp_path_factory.mktemp("browser"))
        made.judge_texts(FIRST, EDITED, "Nothing like the others: a note on bread and patience, and how both rise.")
        made.judge([record_value(HOSTILE_ID, HOSTILE), record_value("again", f"{HOSTILE} again"), b"{}"])
        with made.shown():
            yield made
        made.close()


def opened(browser: Chrome, scene: PageScene, path: str) -> None:
    """Open a page, and wait until its script has run."""
    console(browser)
    browser.get(f"http://127.0.0.1:{scene.port}{path}")
    wait_until(lambda: bool(browser.execute_script("return document.readyState === 'complete'")), SHOWN_S, path)


def shown(browser: Chrome, selector: str) -> str:
    """The text of an element as a reader sees it."""
    return str(browser.find_element("css selector", selector).text)


def test_pages_of_a_running_stream(browser: Chrome, scene: PageScene) -> None:
    """Each opens without an error of the script or the policy, fits 390 and 1280 pixels, and has its charts."""
    for width in (1280, 390):
        resize(browser, width, 900)
        for path in (*PATHS, f"/groups/{hostile_group(scene)}"):
            opened(browser, scene, path)
            assert console(browser) == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, path
    assert browser.find_elements("css selector", "figure .uplot canvas")
    opened(browser, scene, "/live")
    assert browser.find_elements("css selector", "#hour-chart .uplot canvas")
    assert "12" in shown(browser, "#figure-lag")


def test_live_follows_the_stream_and_survives_a_lost_service(browser: Chrome, scene: PageScene) -> None:
    """New verdicts come without a reload; a service that does not answer is named, and followed again when it does."""
    resize(browser, 1280, 900)
    opened(browser, scene, "/live")
    scene.judge_texts("A new article about an otter in the canal.", name="fresh")
    wait_until(lambda: "fresh-" in shown(browser, "#verdicts"), SHOWN_S, "the new verdict")
    browser.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    wait_until(lambda: "has not answered since" in shown(browser, "#lost"), SHOWN_S, "the service is lost")
    scene.judge_texts("Another article, about a heron on the weir.", name="later")
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline | {"offline": False})
    wait_until(lambda: "later-" in shown(browser, "#verdicts"), SHOWN_S, "the service is followed again")
    assert shown(browser, "#lost") == ""


def test_what_the_reader_uses_is_not_replaced(browser: Chrome, scene: PageScene) -> None:
    """A link of the list that has the focus keeps it while verdicts come; Pause keeps the whole page."""
    opened(browser, scene, "/live")
    browser.execute_script("document.querySelector('#verdicts a').focus()")
    scene.judge_texts("An article about swifts under the eaves.", name="swifts")
    before = shown(browser, "#state")
    wait_until(lambda: shown(browser, "#state") != before, SHOWN_S, "the page was fetched")
    assert browser.execute_script("return document.activeElement.matches('#verdicts a')")
    assert "swifts-" not in shown(browser, "#verdicts")
    browser.execute_script("document.activeElement.blur()")
    wait_until(lambda: "swifts-" in shown(browser, "#verdicts"), SHOWN_S, "the list goes on")
    browser.find_element("id", "pause").click()
    assert shown(browser, "#pause") == said("en", "resume")


def test_hostile_text_does_not_run(browser: Chrome, scene: PageScene) -> None:
    """Scripts, handlers, links and ids in articles are text on every page that shows them."""
    for path in (*PATHS, f"/groups/{hostile_group(scene)}"):
        opened(browser, scene, path)
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        assert "ran" not in browser.title
        assert browser.execute_script("return document.querySelectorAll('main img, main script').length") == 0
        links = browser.execute_script("return [...document.links].map((one) => one.protocol)")
        assert set(links) <= {"http:"}
        assert console(browser) == []
    opened(browser, scene, "/check")
    box = browser.find_element("css selector", "textarea")
    browser.execute_script("arguments[0].value = arguments[1]", box, HOSTILE)
    browser.find_element("css selector", "button.main").click()
    wait_until(lambda: browser.find_elements("css selector", "#verdict") != [], SHOWN_S, "the verdict")
    assert "ran" not in browser.title
    assert console(browser) == []
    assert "<script>document.title='ran'</script>" in shown(browser, ".both .text")
    assert "U+202E" in shown(browser, ".both .text")


def test_a_script_in_the_page_would_be_refused(browser: Chrome, scene: PageScene) -> None:
    """If markup of an article came through all the same, the policy would keep it from running."""
    opened(browser, scene, "/check")
    browser.execute_script(
        "document.querySelector('main').innerHTML ="
        ' \'<img src=x onerror="document.title=`ran`"><p style="color:red">\''
    )
    wait_until(lambda: any("Content Security Policy" in one for one in console(browser)), SHOWN_S, "it is refused")
    assert "ran" not in browser.title


def test_everything_is_reached_by_keyboard(browser: Chrome, scene: PageScene) -> None:
    """Tab comes to every link, button and field in the order of the page, and each shows that it has the focus."""
    resize(browser, 1280, 900)
    for path in ("/check?sample=1", "/groups?window=all", f"/groups/{hostile_group(scene)}"):
        opened(browser, scene, path)
        wanted = browser.execute_script(
            "return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary,"
            ' [tabindex="0"]\')].filter((one) => one.checkVisibility()).map((one, at) => (one.dataset.at = at))'
        )
        reached = []
        for _ in wanted:
            browser.switch_to.active_element.send_keys(Keys.TAB)
            at, outline = browser.execute_script(
                "const one = document.activeElement;"
                "return [one.dataset.at, getComputedStyle(one).outlineStyle + getComputedStyle(one).outlineWidth]"
            )
            reached.append(int(at))
            assert outline == "solid3px", (path, at)
        assert reached == wanted


def test_a_check_by_keyboard(browser: Chrome, scene: PageScene) -> None:
    """Ctrl+Enter in the text sends it; the answer marks what differs."""
    opened(browser, scene, "/check")
    browser.find_element("css selector", "textarea").send_keys(FIRST.replace("二十几个", "三十多个"))
    browser.find_element("css selector", "textarea").send_keys(Keys.CONTROL, Keys.ENTER)
    wait_until(lambda: browser.find_elements("css selector", "#verdict") != [], SHOWN_S, "the verdict")
    assert shown(browser, "#verdict .verdict") == said("en", "verdict.duplicate")
    assert [one.text for one in browser.find_elements("css selector", ".both mark")] == ["二十几", "三十多"]


def test_themes_and_languages(browser: Chrome, scene: PageScene) -> None:
    """The system's theme is followed until one is chosen; language and theme stay on the next page."""

    def colour() -> str:
        return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

    opened(browser, scene, "/check")
    light = colour()
    dark_system = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark_system)
    dark = colour()
    assert dark != light
    browser.execute_script(
        "document.getElementById('theme').value = 'light'; document.getElementById('language').value = 'zh';"
        "document.querySelector('.choices').requestSubmit()"
    )
    wait_until(lambda: "查重" in browser.page_source, SHOWN_S, "the page in Chinese")
    assert colour() == light
    opened(browser, scene, "/groups")
    assert (colour(), shown(browser, "h1")) == (light, said("zh", "groups.title"))
    browser.delete_all_cookies()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.expect_log("groups wait for the broker", "log.*no broker answers")
def test_without_a_stream_and_with_a_broken_backend(browser: Chrome, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Empty pages say what to do; a broker that goes away is named, and the check still answers."""
    scene = PageScene(tmp_path_factory.mktemp("empty"))
    with scene.shown():
        opened(browser, scene, "/groups")
        assert said("en", "groups.none") in shown(browser, "#groups")
        opened(browser, scene, "/live")
        assert said("en", "live.verdicts.none") in shown(browser, "#verdicts")
        scene.judge_texts(FIRST)
        scene.wait_ready()
        scene.connection.hook = _away
        well = scene.connection.hook
        scene.connection.hook = _away
        wait_until(lambda: "no broker" in scene.position().detail, SHOWN_S, "the service has noticed it")
        opened(browser, scene, "/check?sample=1")
        assert said("en", "notice.broker.title") in shown(browser, "#notices")
        assert shown(browser, "#verdict .verdict") == said("en", "verdict.unique")
        opened(browser, scene, "/system")
        assert said("en", "notice.broker.title") in shown(browser, "#notices")
        scene.connection.hook = well
    scene.close()


def _away(call: str, _: object) -> None:
    if not call.endswith(".close"):
        msg = f"{call}: no broker answers"
        raise PassingError(msg)
