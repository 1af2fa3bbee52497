"""The pages by keyboard, by a screen reader's tree, and by eyes that need contrast: in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from stream_dedup.serve.pages.backend import PageBackend, StatusView
from stream_dedup.serve.pages.rendering import said
from tests.browser import NO_BROWSER, SHOWN_S, can_run_browser, console, resize, shown, wait_loaded
from tests.serve.page_scene import PageScene, record_value
from tests.serve.screenshots import status_values
from tests.serve.test_page_style import LEAST, colours, contrast
from tests.serve.test_pages import EDITED, FIRST, HOSTILE, HOSTILE_ID, hostile_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(not can_run_browser(), reason=NO_BROWSER), pytest.mark.slow, pytest.mark.timeout(300)]
PATHS = ("/check?sample=1", "/clusters?window=all", "CLUSTER", "/live", "/system")
THEMES = ("light", "dark")
USED = "a, button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
NAMED_ROLES = {"button", "link", "textbox", "combobox", "region", "navigation", "image", "DisclosureTriangle", "table"}
PARTS_OF_TEXT = """
    const shown = (one) => one.checkVisibility() && one.getClientRects().length;
    const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
    const behind = (one) => {
      for (let at = one; at; at = at.parentElement) {
        const [red, green, blue, alpha = 1] = parts(getComputedStyle(at).backgroundColor);
        if (alpha === 1) return [red, green, blue];
        if (alpha !== 0) throw new Error(`a background that lets another one through: ${at.outerHTML}`);
      }
    };
    return [...document.querySelectorAll("body *")]
      .filter((one) => shown(one) && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
      .map((one) => [one.className || one.tagName, parts(getComputedStyle(one).color).slice(0, 3), behind(one)]);
"""
NOTE_FOCUS = """
    document.activeElement.blur();
    window.reached = [];
    addEventListener("focusin", ({ target: one }) => {
      const style = getComputedStyle(one), box = one.getBoundingClientRect();
      const outline = `${style.outlineStyle} ${style.outlineWidth} ${style.outlineColor}`;
      reached.push([one.dataset.at, outline, [box.width, box.height, box.right, box.bottom]]);
    });
"""
"""Notes whatever gets the focus from now on: what it is, how it is marked, and where it is seen."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageScene]:
    """A service over a stream with two stories, one of them hostile; the brokers' description is chosen."""

    async def well(_: PageBackend) -> StatusView:
        return StatusView(status_values(5))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PageBackend, "status", well)
        made = PageScene(tmp_path_factory.mktemp("keyboard"))
        made.judge_texts(FIRST, EDITED, said("en", "check.sample")[:-9], "A note on bread and how it rises.")
        made.judge([record_value(HOSTILE_ID, HOSTILE), record_value("again", f"{HOSTILE} again"), b"{}"])
        with made.shown():
            yield made
        made.close()


def opened(browser: Chrome, scene: PageScene, path: str, theme: str = "light", language: str = "en") -> None:
    """Open a page in a theme and language; what it would fetch again is paused, so that elements stay."""
    resize(browser, 1280, 900)
    address = f"http://127.0.0.1:{scene.port}"
    if not browser.current_url.startswith(address):
        browser.get(f"{address}/assets/pages.css")
    for name, value in (("theme", theme), ("language", language)):
        browser.add_cookie({"name": name, "value": value, "httpOnly": True, "sameSite": "Strict"})
    wait_loaded(browser, address + path.replace("CLUSTER", f"/clusters/{hostile_cluster(scene)}"))
    browser.execute_script("const one = document.getElementById('pause'); if (!one.hidden) one.click()")


def press(browser: Chrome, *keys: str) -> None:
    """Press keys in whatever has the focus."""
    browser.switch_to.active_element.send_keys(*keys)


def focus(browser: Chrome, selector: str) -> None:
    """Give an element the focus, as the Tab key does."""
    browser.execute_script("document.querySelector(arguments[0]).focus({ focusVisible: true })", selector)


def has_focus(browser: Chrome, selector: str) -> bool:
    return bool(browser.execute_script("return document.activeElement.matches(arguments[0])", selector))


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.full)])  # the order has no theme
@pytest.mark.parametrize("path", PATHS)
def test_everything_is_reached_by_keyboard(browser: Chrome, scene: PageScene, path: str, theme: str) -> None:
    """Tab comes to every link, button and field in the order of the page, and each shows that it has the focus."""
    opened(browser, scene, path, theme)
    wanted = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility())"
        ".map((one, at) => (one.dataset.at = at))",
        USED,
    )
    assert len(wanted) > 9
    focus_colour = colours(theme)["focus"]
    red, green, blue = (int(focus_colour[part : part + 2], 16) for part in (1, 3, 5))
    browser.execute_script(NOTE_FOCUS)
    press(browser, Keys.TAB * len(wanted))  # one call: each would take as long as all of them
    reached = browser.execute_script("return window.reached")
    for at, outline, box in reached:
        assert outline == f"solid 3px rgb({red}, {green}, {blue})", (path, at)
        assert min(box) > 0, (path, at, "what has the focus is on the page")
    assert [int(at) for at, _, _ in reached] == wanted


def test_the_skip_link(browser: Chrome, scene: PageScene) -> None:
    """It is the first stop, is seen only then, and Enter leads past the head: the next stop is in the content."""
    opened(browser, scene, "/check")
    hidden = browser.execute_script("return document.querySelector('.skip').getBoundingClientRect().bottom")
    assert hidden <= 0
    browser.execute_script("document.activeElement.blur()")
    press(browser, Keys.TAB)
    assert has_focus(browser, ".skip")
    assert browser.execute_script("return document.querySelector('.skip').getBoundingClientRect().top") >= 0
    press(browser, Keys.ENTER)
    wait_until(lambda: has_focus(browser, "main"), SHOWN_S, "the content has the focus")
    press(browser, Keys.TAB)
    assert has_focus(browser, "main textarea")


def test_every_control_by_keyboard(browser: Chrome, scene: PageScene) -> None:
    """Enter follows links and sends forms; Enter and Space press buttons and open what is folded."""
    opened(browser, scene, "/check")
    press(browser, Keys.TAB)
    focus(browser, "textarea")
    press(browser, FIRST.replace("二十几个", "三十多个"), Keys.CONTROL, Keys.ENTER)
    wait_until(lambda: browser.find_elements("css selector", "#verdict") != [], SHOWN_S, "the verdict")
    assert shown(browser, "#verdict .verdict") == said("en", "verdict.duplicate")
    assert [one.text for one in browser.find_elements("css selector", ".both mark")] == ["二十几", "三十多"]
    other = shown(browser, ".nearest tbody tr:not(.chosen) td")
    focus(browser, ".nearest button")
    press(browser, Keys.SPACE)
    wait_until(lambda: said("en", "check.beside", id=other) in browser.page_source, SHOWN_S, "the other is compared")
    focus(browser, '.examples a[href*="sample"]')
    press(browser, Keys.ENTER)
    wait_until(lambda: "sample" in browser.current_url, SHOWN_S, "the example")
    focus(browser, 'nav a[href="/clusters"]')
    press(browser, Keys.ENTER)
    wait_until(lambda: browser.current_url.endswith("/clusters"), SHOWN_S, "Clusters")
    focus(browser, '.tabs a[href$="week"]')
    press(browser, Keys.ENTER)
    wait_until(lambda: "window=week" in browser.current_url, SHOWN_S, "the week")
    focus(browser, "td.what a")
    press(browser, Keys.ENTER)
    wait_until(lambda: "/clusters/" in browser.current_url, SHOWN_S, "a cluster")
    focus(browser, ".members summary")
    for key, is_open in ((Keys.ENTER, True), (Keys.SPACE, False), (Keys.SPACE, True)):
        press(browser, key)
        assert browser.execute_script("return document.querySelector('.members details').open") is is_open
    opened(browser, scene, "/live")
    for key, pressed in ((Keys.SPACE, "false"), (Keys.ENTER, "true"), (Keys.SPACE, "false")):  # it was paused
        focus(browser, "#pause")
        press(browser, key)
        assert browser.execute_script("return document.getElementById('pause').ariaPressed") == pressed
    assert console(browser) == []


def test_language_and_theme_by_keyboard(browser: Chrome, scene: PageScene) -> None:
    """Arrow keys choose without leaving the page; Enter on the button applies."""
    opened(browser, scene, "/check")
    browser.execute_script("window.stays = true")
    for selector in ("#language", "#theme"):
        focus(browser, selector)
        press(browser, Keys.ARROW_DOWN)
        assert browser.execute_script("return window.stays"), selector
    focus(browser, ".choices button")
    press(browser, Keys.ENTER)
    wait_until(lambda: said("zh", "check.title") in browser.page_source, SHOWN_S, "the page in Chinese")
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    browser.delete_all_cookies()


def tree_of(browser: Chrome) -> list[tuple[str, str, dict[str, Any]]]:
    """Role, name and properties of each node that a screen reader is given."""
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", ""),
            {one["name"]: one["value"].get("value") for one in node.get("properties", [])},
        )
        for node in nodes
        if not node["ignored"]
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("path", PATHS)
def test_names_and_headings(browser: Chrome, scene: PageScene, path: str, language: str) -> None:
    """Everything that is used or drawn has a name; one heading of the first level, none skipped; ids are single.

    Notices are in a live region that is there before them; what changes every two seconds is in none.
    """
    opened(browser, scene, path, language=language)
    tree = tree_of(browser)
    assert {role for role, _, _ in tree} >= {"main", "banner", "contentinfo", "navigation", "heading"}
    assert [role for role, name, _ in tree if role in NAMED_ROLES - {"table"} and not name.strip()] == []
    levels = [int(values["level"]) for role, _, values in tree if role == "heading"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(level <= before + 1 for before, level in pairwise(levels)), levels
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((one) => one.getAttribute('id'))")
    assert sorted(set(ids)) == sorted(ids)
    labels = browser.execute_script(
        "return [...document.querySelectorAll('[aria-labelledby]')].map((one) => one.getAttribute('aria-labelledby'))"
    )
    assert set(labels) <= set(ids)
    live = browser.execute_script(
        "return [...document.querySelectorAll('[role=status], [role=alert], [aria-live]')].map((one) => one.id)"
    )
    assert live == ["lost", "recovered", "notices"]
    assert browser.execute_script("return document.getElementById('notices').matches('[data-live]')")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("path", PATHS)
def test_every_text_can_be_read(browser: Chrome, scene: PageScene, path: str, theme: str) -> None:
    """The colour of each text on the page against what is behind it, as the browser computes both."""
    opened(browser, scene, path, theme)
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    found = browser.execute_script(PARTS_OF_TEXT)
    assert len(found) > 20

    def code(parts: list[float]) -> str:
        return "#" + "".join(f"{round(part):02x}" for part in parts)

    ratios = {(name, code(text), code(back)): contrast(code(text), code(back)) for name, text, back in found}
    assert {key: round(ratio, 2) for key, ratio in ratios.items() if ratio < LEAST} == {}
    back = re.search(r"\d+", browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert back is not None
    assert (int(back[0]) < 100) == (theme == "dark")
