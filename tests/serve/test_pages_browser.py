"""The pages in a real browser: with and without a stream, with a broken backend, hostile text, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from stream_dedup.ports import PassingError
from stream_dedup.serve import follower
from stream_dedup.serve.pages.backend import PageBackend, StatusView
from stream_dedup.serve.pages.rendering import said
from tests.browser import NO_BROWSER, SHOWN_S, can_run_browser, console, resize, shown, wait_loaded
from tests.serve.page_scene import PageScene, record_value
from tests.serve.test_pages import EDITED, FIRST, HOSTILE, HOSTILE_ID, hostile_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(not can_run_browser(), reason=NO_BROWSER), pytest.mark.slow, pytest.mark.timeout(300)]
PATHS = ("/check", "/check?sample=1", "/clusters?window=all", "/live", "/system")
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
    "findings": [{"code": "log_absent", "values": {"topic": "<b>x</b>"}, "text": "", "remedy": "", "is_note": False}],
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageScene]:
    """A service over a stream with two stories, one of them hostile; the brokers' description is chosen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PageBackend, "status", _well)
        made = PageScene(tmp_path_factory.mktemp("browser"))
        made.judge_texts(FIRST, EDITED, "Nothing like the others: a note on bread and patience, and how both rise.")
        made.judge([record_value(HOSTILE_ID, HOSTILE), record_value("again", f"{HOSTILE} again"), b"{}"])
        with made.shown():
            yield made
        made.close()


async def _well(_: PageBackend) -> StatusView:
    """Describe the group without asking a broker."""
    return StatusView(WELL)


def opened(browser: Chrome, scene: PageScene, path: str) -> None:
    wait_loaded(browser, f"http://127.0.0.1:{scene.port}{path}")


def test_pages_of_a_running_stream(browser: Chrome, scene: PageScene) -> None:
    """Each opens without an error of the script or the policy, fits 390 and 1280 pixels, and has its charts."""
    for width in (1280, 390):
        resize(browser, width, 900)
        for path in (*PATHS, f"/clusters/{hostile_cluster(scene)}"):
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
    for path in (*PATHS, f"/clusters/{hostile_cluster(scene)}"):
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
    assert "<script>" not in shown(browser, ".both .text")
    assert "U+202E" in shown(browser, ".both .text")
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    assert "<script>document.title='ran'</script>" in shown(browser, ".both .markup .text")
    assert "ran" not in browser.title


def test_the_source_of_an_article_is_folded(browser: Chrome, scene: PageScene) -> None:
    """A text that is HTML is seen without its tags, in lines; its source opens, and runs no more than the text."""
    text = "<p>One <b>ship</b></p><p>and <img src=x onerror=\"document.title='ran'\"> another.</p>&lt;script&gt;"
    opened(browser, scene, "/check")
    browser.execute_script("arguments[0].value = arguments[1]", browser.find_element("css selector", "textarea"), text)
    browser.find_element("css selector", "button.main").click()
    wait_until(lambda: browser.find_elements("css selector", "#verdict") != [], SHOWN_S, "the verdict")
    yours = browser.find_elements("css selector", ".text")[
        -2 if browser.find_elements("css selector", ".markup") else -1
    ]
    assert yours.text.split() == ["One", "ship", "and", "another."]
    assert "\n" in yours.text
    folded = browser.find_elements("css selector", ".markup")[-1]
    assert text not in folded.text
    folded.find_element("css selector", "summary").click()
    assert text in folded.text
    assert browser.execute_script("return document.querySelectorAll('main img, main script').length") == 0
    assert "ran" not in browser.title
    assert console(browser) == []


def test_a_script_in_the_page_would_be_refused(browser: Chrome, scene: PageScene) -> None:
    """If markup of an article came through all the same, the policy would keep it from running."""
    opened(browser, scene, "/check")
    browser.execute_script(
        "document.querySelector('main').innerHTML ="
        ' \'<img src=x onerror="document.title=`ran`"><p style="color:red">\''
    )
    wait_until(lambda: any("Content Security Policy" in one for one in console(browser)), SHOWN_S, "it is refused")
    assert "ran" not in browser.title


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
    opened(browser, scene, "/clusters")
    assert (colour(), shown(browser, "h1")) == (light, said("zh", "clusters.title"))
    browser.delete_all_cookies()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_while_the_log_is_read(
    browser: Chrome, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page says how far it is, and more as it goes on; when all is read it says so without a reload."""
    monkeypatch.setattr(PageBackend, "status", _well)
    scene = PageScene(tmp_path_factory.mktemp("reading"), kafka={"broker_wait_s": 60})
    for number in range(9):
        scene.judge_texts(f"Article {number} of the library, on a bridge, a weir and the {number + 2} boats below it.")
    scene.limit_reading(4)
    with scene.serve(until_ready=False):
        wait_until(lambda: scene.polls == 4, SHOWN_S, "some of the log is read")
        for path in ("/check", "/clusters", "/system", "/live"):
            opened(browser, scene, path)
            assert said("en", "notice.reading.title") in shown(browser, "#notices")
            assert said("en", "notice.reading", done="4", all="10") in shown(browser, "#notices")
            assert "40 %" in shown(browser, "#state")
            assert int(browser.execute_script("return document.body.dataset.every")) > 0
        browser.execute_script("window.stays = true")
        scene.limit_reading(7)
        wait_until(lambda: said("en", "notice.reading", done="7", all="10") in shown(browser, "#notices"), SHOWN_S, "7")
        scene.limit_reading(None)
        wait_until(lambda: "log offset 10" in shown(browser, "#state"), 3 * SHOWN_S, "all is read")
        wait_until(lambda: shown(browser, "#notices") == "", SHOWN_S, "the clusters are read, too")
        assert "article-8" in shown(browser, "#verdicts")
        assert browser.execute_script("return window.stays")
        assert console(browser) == []
    scene.close()


@pytest.mark.expect_log("clusters wait for the broker", "log.*no broker answers")
def test_without_a_stream_and_with_a_broken_backend(
    browser: Chrome, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty pages say what to do; a broker that goes away is named, and the check still answers."""
    monkeypatch.setattr(follower, "SILENCE_S", 1.0)
    scene = PageScene(tmp_path_factory.mktemp("empty"))
    with scene.shown():
        opened(browser, scene, "/clusters")
        assert said("en", "clusters.none") in shown(browser, "#clusters")
        opened(browser, scene, "/live")
        assert said("en", "live.verdicts.none") in shown(browser, "#verdicts")
        scene.judge_texts(FIRST, EDITED)
        scene.wait_ready()
        scene.wait_clusters()
        well, scene.connection.hook = scene.connection.hook, _away
        wait_until(lambda: "no broker" in scene.position().detail, SHOWN_S, "the service has noticed it")
        opened(browser, scene, "/check?sample=1")
        assert said("en", "notice.broker.title") in shown(browser, "#notices")
        assert shown(browser, "#verdict .verdict") == said("en", "verdict.unique")
        opened(browser, scene, "/system")
        assert said("en", "notice.broker.title") in shown(browser, "#notices")
        opened(browser, scene, "/clusters?window=all")
        assert said("en", "clusters.no_text.now") in shown(browser, "#clusters")
        scene.connection.hook = well
        wait_until(lambda: scene.position().up_to_date, SHOWN_S, "the service follows the log again")
        scene.wait_clusters()
        fetch_now(browser)
        wait_until(lambda: shown(browser, "#notices") == "", SHOWN_S, "the page shows that a broker answers again")
        recovered = browser.execute_script("return document.getElementById('recovered').textContent")
        assert said("en", "state.ready", offset="2") in recovered
    scene.close()


def fetch_now(browser: Chrome) -> None:
    """Let the page fetch itself again now, as it does when its window is seen again, not after its seconds."""
    browser.execute_script("document.dispatchEvent(new Event('visibilitychange'))")


def _away(call: str, _: object) -> None:
    if not call.endswith(".close"):
        raise PassingError(f"{call}: no broker answers")
