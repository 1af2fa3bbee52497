"""Articles whose text is HTML, as pages show them: as a reader sees them, with the source beside; and escaped."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html import escape, unescape
from types import SimpleNamespace

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.decode import Article
from stream_dedup.core.model import Coordinates, SourceOffset
from stream_dedup.core.profiles import PROFILES
from stream_dedup.serve.pages.backend import PageBackend
from stream_dedup.serve.pages.rendering import LANGUAGES, said
from stream_dedup.serve.pages.shown_text import MAX_READ, MAX_SHOWN, ShownArticle
from stream_dedup.serve.reading import SourcedText
from tests.serve.clients import Answer
from tests.serve.page_app import text_of
from tests.serve.page_scene import PageScene
from tests.serve.test_pages import FIRST, check, plain

SENTENCES = [f"{one}。" for one in re.split("[，。]", FIRST) if one]
BARE_PAGE = "".join(f'<p class="body">{one}</p>' for one in SENTENCES)
PAGE = BARE_PAGE.replace("船上", '<i title="a ship">船</i>上')
EDITED_PAGE = BARE_PAGE.replace("清晨五点", "<b>傍晚</b>六点")
ESCAPED = "<p>&lt;script&gt;document.title='ran'&lt;/script&gt;</p><!-- <!-- -->" + PAGE.replace("</p>", "")
HOSTILE_PARTS = ("<", "<div></x>", "<!-- <!-- --> ", "&lt;script&gt;", "&amp;lt;img src=x onerror=y&amp;gt;", "<a ")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageScene]:
    """A service over a stream whose articles are HTML, in the text of a scheme that drops tags and entities."""
    made = PageScene(tmp_path_factory.mktemp("markup"), match={"profile": "article"})
    made.judge_texts(PAGE, EDITED_PAGE, ESCAPED, name="html")
    with made.shown():
        yield made
    made.close()


def cluster_page(scene: PageScene, language: str = "en") -> str:
    found = json.loads(scene.call("GET", "/v1/clusters?window=all").body)["clusters"]
    answer: Answer = scene.call("GET", f"/clusters/{found[0]['id']}", headers={"Accept-Language": language})
    return text_of(answer)


def shown_texts(page: str) -> list[str]:
    """The texts of a page without their sources, as a reader sees them, line by line."""
    without = re.sub(r'<details class="markup">.*?</details>', "", page, flags=re.DOTALL)
    found = re.findall(r'<div class="text"[^>]*>(.*?)</div>', without, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", one)) for one in found]


def sources(page: str) -> list[str]:
    """What is folded as a source."""
    found = re.findall(r'<details class="markup"><summary>[^<]*</summary>(.*?)</details>', page, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", one)) for one in found]


def test_check_shows_the_text_of_html(scene: PageScene) -> None:
    """Paragraphs are lines, what differs is marked in the text alone, and each source is there as it was sent."""
    page = check(scene, EDITED_PAGE, beside="0")
    earlier, yours = shown_texts(page)
    assert yours.split("\n\n") == [one.replace("清晨五点", " 傍晚 六点") for one in SENTENCES]
    assert earlier in {yours, "\n\n".join(SENTENCES)}
    assert sources(page)[-1] == EDITED_PAGE
    marks = [plain(one) for one in re.findall(r"<mark>(.*?)</mark>", check(scene, PAGE.replace("清晨五", "正午十二")))]
    assert "正午十二" in marks
    assert [one for one in marks if "<" in one or "class" in one] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_articles_of_a_cluster(scene: PageScene, language: str) -> None:
    """Their texts and excerpts have no markup, and the differences from the first one are those of the texts."""
    page = cluster_page(scene, language)
    texts = shown_texts(page)
    assert texts[:2] == [
        "\n\n".join(SENTENCES).replace("船上", "船 上"),
        "\n\n".join(SENTENCES).replace("清晨五点", " 傍晚 六点"),
    ]
    assert sources(page)[:2] == [PAGE, EDITED_PAGE]
    assert page.count(f"<summary>{said(language, 'source')}</summary>") == len(texts)
    excerpts = [plain(one) for one in re.findall(r'<span class="excerpt">(.*?)</span>\n</summary>', page, re.DOTALL)]
    assert len(excerpts) == len(texts)
    assert [one for one in excerpts if "class=" in one or "<" in one] == []
    marks = [plain(one) for one in re.findall(r"<mark>(.*?)</mark>", re.sub(r"</?bdi>", "", page))]
    assert [one for one in marks if "class" in one or "船" in one] == []
    assert any("傍晚" in one for one in marks)


def test_the_list_of_clusters(scene: PageScene) -> None:
    """The beginning of a text is that of its words."""
    page = text_of(scene.call("GET", "/clusters?window=all"))
    assert SENTENCES[0] in plain(page)
    assert "class=&#34;body" not in page


def test_plain_text_has_no_source(scene: PageScene) -> None:
    """It is shown as it is; nothing is folded."""
    text = FIRST + "\n  1 < 2 & 3 > 2\n"
    page = check(scene, text)
    assert shown_texts(page)[-1] == text
    assert len(sources(page)) == len(shown_texts(page)) - 1  # the earlier article has one


def test_what_markup_hides_is_escaped(scene: PageScene) -> None:
    """Entities that decode to markup, and every source, are text on the page; nothing of them is markup."""
    for page in (
        cluster_page(scene),
        check(scene, ESCAPED),
        check(scene, "&amp;lt;script&amp;gt;x&amp;lt;/script&amp;gt; &lt; b"),
    ):
        assert "<script>" not in page
        assert not re.search(r"<(?:img|p class=\"body)", page)
        assert sources(page) != []
    assert escape(ESCAPED[:30], quote=False) in cluster_page(scene).replace("&#39;", "'")


def test_a_source_of_any_kind_is_text() -> None:
    """A text that decodes to a script is shown without it, and its source is cut with an ellipsis."""
    long = ShownArticle.of("<p>" * MAX_SHOWN, "")
    assert ("".join(one.text for one in long.source), long.text) == (("<p>" * MAX_SHOWN)[:MAX_SHOWN] + "…", "")
    assert not ShownArticle.of("x" * MAX_SHOWN, None).is_cut
    assert ShownArticle.of("x" * (MAX_SHOWN + 1), None).is_cut
    assert not ShownArticle.of("x" * MAX_READ, "x").is_cut
    assert ShownArticle.of("x" * (MAX_READ + 1), "x").is_cut
    assert ShownArticle.of("x", "x" * (MAX_SHOWN + 1)).is_cut


@pytest.mark.parametrize("part", HOSTILE_PARTS)
def test_a_megabyte_of_hostile_markup(part: str) -> None:
    """The beginning is read, in a fraction of a second, whatever it is; fields share it."""
    article = Article("a", tuple((part * 1_000_000)[:500_000] for _ in range(2)))
    at = Coordinates(bytes(16), 0, SourceOffset(0))

    async def read(_: object) -> dict[Coordinates, SourcedText]:
        return {at: SourcedText(article)}

    settings = replace(PROFILES["article"].settings, fields=(("title", 1), ("body", 1)), html_fields=("body",))
    service = SimpleNamespace(
        config=load_config(None, {"kafka": {"group": "g"}, "topics": {"input": ["t"]}}, {}),
        texts=SimpleNamespace(read=read),
        fingerprinter=SimpleNamespace(settings=settings),
    )
    pages = PageBackend(service)  # type: ignore[arg-type] # the parts that texts need
    begun = time.process_time()
    found = asyncio.run(pages.texts([], 10))[at].shown
    assert time.process_time() - begun < 2
    assert found is not None
    assert len(found.text) <= MAX_SHOWN
