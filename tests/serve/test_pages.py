"""The pages of a running service, read without a browser and without their script."""

from __future__ import annotations

import html
import json
import re
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from stream_dedup.ports import Partition
from stream_dedup.serve.pages.rendering import LANGUAGES, said
from tests.memory.partition import Message
from tests.serve.clients import Answer
from tests.serve.page_app import text_of
from tests.serve.page_scene import PageScene, record_value
from tests.serve.served import TOPIC

FIRST = (
    "老码头的渡船今天清晨五点准时开出，船上坐着二十几个要去对岸赶集的人，船长说水位比去年同期高了半米，航线会绕开沙洲。"
)
EDITED = (
    "老码头的渡船今天傍晚六点准时开出，船上坐着二十几个要去对岸赶集的人，船长说水位比去年同期高了半米，航线会绕开沙洲。"
)
HOSTILE = (
    "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
    "<a href=\"javascript:document.title='ran'\">link</a> \u202eevil\u200b {{ 7*7 }} </textarea></bdi>"
    " and a story about a lighthouse keeper who counts the ships that pass the northern cape every evening"
)
HOSTILE_ID = "\"><script>document.title='ran'</script>\u202e"
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageScene]:
    """A service over a stream with two stories, one of them hostile, and a rejected record."""
    made = PageScene(tmp_path_factory.mktemp("pages"))
    made.judge_texts(FIRST, EDITED, "Nothing like the others: a short note on bread and patience, and how both rise.")
    made.judge([record_value(HOSTILE_ID, HOSTILE), record_value("again", f"{HOSTILE} again"), b'{"id": "no text"}'])
    with made.shown():
        yield made
    made.close()


def get(scene: PageScene, path: str, language: str = "en") -> Answer:
    return scene.call("GET", path, headers={"Accept-Language": language})


def check(scene: PageScene, text: str, **fields: str) -> str:
    body = urlencode({"field.text": text, **fields}).encode()
    return text_of(scene.call("POST", "/check", body, FORM))


def plain(page: str) -> str:
    """The words of a page, without its markup."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page)))


def hostile_cluster(scene: PageScene) -> str:
    found = json.loads(scene.call("GET", "/v1/clusters?window=all").body)["clusters"]
    return str(next(one["id"] for one in found if one["first"]["id"] == HOSTILE_ID))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "path", ["/check", "/check?sample=1", "/clusters?window=all", "/live", "/system", "/clusters/CLUSTER"]
)
def test_every_page_answers_in_each_language(scene: PageScene, path: str, language: str) -> None:
    """With a policy that forbids foreign and inline scripts, and nothing in the page that it would forbid."""
    answer = get(scene, path.replace("CLUSTER", hostile_cluster(scene)), language)
    page = text_of(answer)
    assert answer.status == HTTPStatus.OK
    assert f'<html lang="{ {"en": "en", "zh": "zh-Hans"}[language] }"' in page
    assert said(language, "nav.clusters") in page
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-frame-options"] == "DENY"
    assert re.findall(r"<script(?! src=\"/assets/)", page) == []
    assert re.findall(r"<[^>]+\s(?:on\w+|style)\s*=", page) == []
    assert "javascript:" not in re.findall(r'(?:href|src|action)="([^"]*)"', page)


def test_a_check_names_the_match_and_why(scene: PageScene) -> None:
    """Verdict, match, passages, numbers and bits are those of the API."""
    text = FIRST.replace("清晨五点", "正午十二点")
    result = json.loads(scene.call("POST", "/v1/check", {"text": text}).body)["results"][0]
    page = check(scene, text)
    assert result["verdict"] == "duplicate"
    assert f'<h2 id="verdict"><span class="verdict duplicate">{said("en", "verdict.duplicate")}</span>' in page
    assert f"{result['nearest'][0]['distance']} of 256 differ" in plain(page)
    assert page.count('<rect class="differs"') == result["nearest"][0]["distance"]
    assert page.count("<rect ") == 2 * 256 + result["nearest"][0]["distance"]
    marks = [plain(one) for one in re.findall(r"<mark>(.*?)</mark>", page)]
    assert marks == ["清晨五", "正午十二"]
    assert f'href="/clusters/{result["nearest"][0]["cluster"]}"' in page


def test_another_of_the_nearest_is_compared(scene: PageScene) -> None:
    """The buttons of the list send the same text, and which entry to show."""
    page = check(scene, FIRST, beside="1")
    assert "<mark>傍晚六</mark>" in re.sub(r"</?bdi>", "", page)
    assert 'name="beside" value="0"' in page
    assert check(scene, FIRST, beside="99").count('<tr class="chosen">') == 1


@pytest.mark.parametrize(
    ("text", "verdict"), [("", "rejected"), ("!!! ???", "unique"), ("ok", "unique"), (FIRST, "duplicate")]
)
def test_every_kind_of_text(scene: PageScene, text: str, verdict: str) -> None:
    """Empty, without words, a word, long: each has its page."""
    assert f'<span class="verdict {verdict}">' in check(scene, text)


def test_an_article_of_the_stream_is_an_example(scene: PageScene) -> None:
    """The link of the newest duplicate fills the form with its text."""
    link = re.search(r'href="(/check\?article=[^"]+)"', text_of(get(scene, "/check")))
    assert link is not None
    page = text_of(get(scene, html.unescape(link[1])))
    assert html.escape(f"{HOSTILE} again", quote=False).replace("&#x27;", "'")[:20] in page.replace("&#34;", '"')
    assert said("en", "verdict.duplicate") in page


@pytest.mark.parametrize("name", ["nonsense", f"{'0' * 8}-0000-0000-0000-{'0' * 12}-0-1", f"{'f' * 40}"])
def test_an_example_that_is_none(scene: PageScene, name: str) -> None:
    """A page with an empty form."""
    answer = get(scene, f"/check?article={quote(name)}")
    assert answer.status == HTTPStatus.OK
    assert re.search(r"<textarea[^>]*>\n</textarea>", text_of(answer))


def test_no_record_but_an_article_is_an_example(scene: PageScene) -> None:
    """The service may read other topics, and other records: an address does not name what it shows."""
    private = "the minutes of a meeting that nobody here should read"
    cluster = scene.cluster
    topic_id = uuid.UUID(bytes=cluster.make_topic("minutes"))
    offset = cluster.append(
        cluster.partition(Partition("minutes", 0)), Message(None, record_value("m", private), (), 1_000)
    )
    for name in (f"{topic_id}-0-{offset}", f"{topic_id}-0-{offset}@minutes"):
        assert private not in text_of(get(scene, f"/check?article={quote(name)}"))


def test_hostile_text_is_text_everywhere(scene: PageScene) -> None:
    """Markup, links and templates are shown as they are; characters that turn text round, as codes."""
    pages = [check(scene, HOSTILE), *(text_of(get(scene, path)) for path in ("/clusters?window=all", "/live"))]
    pages += [
        text_of(get(scene, f"/clusters/{hostile_cluster(scene)}")),
        text_of(get(scene, "/check?article=<script>")),
    ]
    for page in pages:
        assert "<script>document" not in page
        assert "<img" not in page
        assert "javascript:document" not in "".join(re.findall(r'href="([^"]*)"', page))
        assert "\u202e" not in re.sub(r"<textarea.*?</textarea>", "", page, flags=re.DOTALL)
    assert "{{ 7*7 }}" in plain(pages[0])
    assert '<span class="code" title="Hidden character: RIGHT-TO-LEFT OVERRIDE">U+202E</span>' in pages[0]
    assert pages[0].count("</textarea>") == 1


def test_clusters_and_their_windows(scene: PageScene) -> None:
    """The list has the clusters of more than one article, with their numbers."""
    for window in ("hour", "day", "week", "all", "nonsense"):
        page = text_of(get(scene, f"/clusters?window={window}"))
        assert page.count('<td class="n strong">2</td>') == 2
        assert 'aria-current="true"' in page


def test_the_page_of_a_cluster(scene: PageScene) -> None:
    """Its articles, oldest first, with what differs from the first one; its curve has all of them."""
    found = json.loads(scene.call("GET", "/v1/clusters?window=all").body)["clusters"]
    cluster = next(one["id"] for one in found if one["first"]["id"] == "article-0")
    page = text_of(get(scene, f"/clusters/{cluster}?window=hour"))
    assert re.findall(r'<span class="id">([^<]*)</span>', page) == ["article-0", "article-1"]
    assert set(re.findall(r"<mark>(.*?)</mark>", re.sub(r"</?bdi>", "", page))) == {"傍晚六"}
    chart = json.loads(html.unescape(re.search(r'data-chart="([^"]+)"', page)[1]))  # type: ignore[index] # it is there
    assert (len(chart["counts"]), sum(chart["counts"])) == (60, 2)
    assert max(chart["times"]) <= time.time()


@pytest.mark.parametrize("path", ["/clusters/nonsense", "/clusters/00000000-0000-0000-0000-000000000000-0-0"])
def test_a_cluster_that_is_none(scene: PageScene, path: str) -> None:
    """404, on a page of its own."""
    answer = get(scene, path)
    assert (answer.status, said("en", "cluster.unknown.title") in text_of(answer)) == (HTTPStatus.NOT_FOUND, True)


def test_a_strange_place_in_a_cluster(scene: PageScene) -> None:
    """404, and no failure."""
    assert get(scene, f"/clusters/{hostile_cluster(scene)}?after=1;drop").status == HTTPStatus.NOT_FOUND


def test_live_counts_what_was_written(scene: PageScene) -> None:
    """The numbers of the last hour are those of the outputs; a rejected record has its reason."""
    scene.wait_clusters()
    page = plain(text_of(get(scene, "/live")))
    assert set(scene.verdicts) == {"unique", "duplicate", "rejected"}
    for name, count in scene.verdicts.items():
        assert re.search(rf"{said('en', f'verdict.{name}')} ?{count}\b", page)
    assert re.search(rf"{said('en', 'reason.missing_field')} ?1\b", page)


def test_a_huge_text_is_cut(scene: PageScene) -> None:
    """A page of a text of half a megabyte has some of it, and says so; it stays a small page."""
    text = "".join(chr(0x4E00 + at % 5000) for at in range(150_000))
    scene.judge([record_value("huge", text)])
    scene.wait_ready()
    page = check(scene, text)
    assert said("en", "check.cut", count="20,000") in plain(page)
    assert said("en", "check.bits.none") in plain(page)
    assert page.count("一") == 150_000 // 5000 + 2 * 20_000 // 5000  # in the form, and in both texts


def test_a_text_that_was_deleted(tmp_path: Path) -> None:
    """Where retention has deleted the record, or the topic is gone, pages say so, and draw the bits all the same."""
    scene = PageScene(tmp_path)
    scene.judge_texts(FIRST, EDITED)
    with scene.shown():
        scene.cluster.partition(Partition(TOPIC, 0)).delete_before(2)
        page = check(scene, FIRST)
        assert said("en", "absent.deleted") in page
        assert page.count("<rect ") == 2 * 256
        assert said("en", "clusters.no_text") in text_of(get(scene, "/clusters?window=all"))
        scene.cluster.delete_topic(TOPIC)
        assert said("en", "absent.other_topic") in check(scene, FIRST)
    scene.close()
