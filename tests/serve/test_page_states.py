"""What pages say when something is missing: over a backend whose every answer is chosen."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import replace
from html import unescape
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from stream_dedup.clusters.follow import FollowerState
from stream_dedup.clusters.model import ClusteredArticle, MissingOutputs, VerdictCounts, cluster_id_of
from stream_dedup.config.load import load_config
from stream_dedup.core.decode import Article, InputFormat
from stream_dedup.core.model import Coordinates, LogOffset, SourceOffset, Verdict
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.ports import Partition
from stream_dedup.serve.follower import Phase, Position
from stream_dedup.serve.pages.backend import (
    RECENT_S,
    ArticleText,
    ClustersState,
    ErrorKind,
    PageBackend,
    ShownError,
    StatusView,
    shown_error,
)
from stream_dedup.serve.pages.check_page import CheckForm
from stream_dedup.serve.pages.live_page import RateMeter, VerdictRates, live_page
from stream_dedup.serve.pages.rendering import LANGUAGES, said
from stream_dedup.serve.pages.shown_text import ShownArticle
from stream_dedup.serve.problems import ProblemError, busy, not_ready
from stream_dedup.serve.reading import StatusValues, TextAbsence
from stream_dedup.status.findings import FindingCode
from tests.serve.page_app import READY, TOPIC_ID, ChosenBackend, PageApp, check_answer, nearest_value, text_of
from tests.serve.screenshots import status_values

UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""Of version 1.6.32."""
NUMBERS = frozenset(("lag", "growth", "held", "seconds"))
"""Values of findings whose sentences format them as numbers."""
PATHS = ("/check", "/clusters", "/live", "/system")
FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}
STATES = {
    "notice.reading.title": Position(Phase.READING, "reading the log", (250, 1000)),
    "notice.log.title": Position(Phase.NO_LOG, "there is no log yet: its topic does not exist"),
    "notice.starting.title": Position(Phase.OPENING, "opening the index"),
    "notice.broker.title": replace(READY, phase=Phase.SILENT, end=LogOffset(9)),
}


class BrokenStore:
    """A store of clusters whose disk fails."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any question
        def fail(*_: object) -> None:
            raise CorruptError(f"cluster store <b>: {name}")

        return fail


class EmptyStore:
    """A store of clusters that has lost five outputs and holds nothing."""

    def missing(self) -> list[MissingOutputs]:
        return [MissingOutputs(Partition("unique", 0), 2, 7)]

    def totals(self, *_: object) -> VerdictCounts:
        return VerdictCounts()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any other question
        return lambda *_: []


BROKEN: Any = BrokenStore()
EMPTY: Any = EmptyStore()


def checked(backend: ChosenBackend, body: bytes = b"field.text=words", language: str = "en") -> str:
    answer = PageApp(backend).post("/check", body, **FORM, accept_language=language)
    return text_of(answer)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", STATES)
@pytest.mark.parametrize("path", PATHS)
def test_the_state_of_the_service(path: str, key: str, language: str) -> None:
    """Every page says in the reader's language that the log is read, absent, not open, or that no broker answers."""
    html = text_of(PageApp(ChosenBackend(at=STATES[key])).get(path, accept_language=language))
    assert said(language, key) in html
    assert not [other for other in STATES if other != key and said(language, other) in html]
    assert said(language, key) not in text_of(PageApp(ChosenBackend()).get(path, accept_language=language))


def test_progress_while_the_log_is_read() -> None:
    """A bar and the numbers."""
    html = text_of(PageApp(ChosenBackend(at=STATES["notice.reading.title"])).get("/live"))
    assert '<progress max="1000" value="250">25 %</progress>' in html
    assert "250 of 1,000 records" in html


@pytest.mark.parametrize("path", PATHS[1:])
def test_clusters_that_fail(path: str) -> None:
    """Each page says so; none fails, and the error's message is no markup."""
    answer = PageApp(
        ChosenBackend(state=ClustersState(None, None, ShownError(ErrorKind.REFUSED, "the log <i> was recreated")))
    ).get(path)
    assert said("en", "notice.clusters.error.title") in text_of(answer)
    assert "the log &lt;i&gt; was recreated" in text_of(answer)
    if path == "/system":  # asks the store nothing
        return
    broken = PageApp(ChosenBackend(state=ClustersState(BROKEN))).get(path)
    assert "cluster store &lt;b&gt;" in text_of(broken)


def test_no_clusters_and_clusters_that_are_behind() -> None:
    """Without a store it is said what that means; one that is behind, or has lost outputs, says by how much."""
    assert said("en", "notice.clusters.none") in text_of(PageApp(ChosenBackend()).get("/clusters"))
    behind = ClustersState(EMPTY, FollowerState(1234, has_caught_up=False, unpublished=None))
    html = text_of(PageApp(ChosenBackend(state=behind)).get("/clusters"))
    assert said("en", "notice.clusters.behind", lag="1,234") in html
    assert said("en", "notice.clusters.missing", count="5") in html
    assert said("en", "clusters.none") in html


def test_a_reason_that_has_no_text() -> None:
    """A later release may have new codes: they are shown as they are."""
    store: Any = EmptyStore()
    counts = VerdictCounts(rejected={"<new>": 2, "empty_text": 1})
    store.totals = lambda *_: counts
    html = text_of(PageApp(ChosenBackend(state=ClustersState(store))).get("/live"))
    for name in ("&lt;new&gt;", said("en", "reason.empty_text")):
        assert f"<td>{name}</td>" in html


def test_a_cluster_page_without_a_store() -> None:
    """503, and no claim that there is no such cluster; a failing store, too."""
    for state in (ClustersState(None), ClustersState(BROKEN)):
        answer = PageApp(ChosenBackend(state=state)).get(f"/clusters/{TOPIC_ID}-0-1")
        assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert said("en", "cluster.unknown.title") not in text_of(answer)


NO_RIGHT = ShownError(ErrorKind.USER, "no right to describe <group>")


@pytest.mark.parametrize("path", ["/live", "/system"])
def test_brokers_that_do_not_describe_the_group(path: str) -> None:
    """The page says what kind of error it is, in the reader's language, and has its message as English."""
    html = text_of(PageApp(ChosenBackend(view=StatusView(None, NO_RIGHT))).get(path))
    assert said("en", "error.user") in html
    assert '<span lang="en" class="mono">no right to describe &lt;group&gt;</span>' in html


@pytest.mark.parametrize("kind", ErrorKind)
def test_an_error_in_chinese(kind: ErrorKind) -> None:
    """Each kind has a sentence; the message of the program is marked as English, for those who read to the blind."""
    view = StatusView(None, ShownError(kind, "a message"))
    html = text_of(PageApp(ChosenBackend(view=view)).get("/system", accept_language="zh"))
    assert said("zh", f"error.{kind}") in html
    assert html.count("a message") == html.count('<span lang="en" class="mono">a message</span>') == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnavailableError("x"), ErrorKind.UNAVAILABLE),
        (RefusedError("x"), ErrorKind.REFUSED),
        (UserError("x"), ErrorKind.USER),
        (CorruptError("x"), ErrorKind.CORRUPT),
        (busy("x"), ErrorKind.BUSY),
        (ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "timeout", "x"), ErrorKind.LATE),
        (not_ready("x"), ErrorKind.OTHER),
        (ValueError("x"), ErrorKind.OTHER),
    ],
)
def test_errors_are_known_by_their_types(error: Exception, kind: ErrorKind) -> None:
    """Not by their messages, which may change."""
    assert shown_error(error) == ShownError(kind, "x")


def test_a_log_that_cannot_be_followed() -> None:
    """The page says in the reader's language what the service does, and has the message of the error."""
    failed = Position(Phase.FAILED, "log <x> was cut")
    html = text_of(PageApp(ChosenBackend(at=failed)).get("/live", accept_language="zh"))
    assert said("zh", "notice.starting", activity=said("zh", "phase.failed")) in html
    assert '<span lang="en" class="mono">log &lt;x&gt; was cut</span>' in html


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", FindingCode)
def test_a_finding_is_in_the_language_of_the_reader(code: FindingCode, language: str) -> None:
    """Text and remedy, with their values; foreign names are no markup."""
    names = set(re.findall(r"{(\w+)", "".join(code.value)))
    values: dict[str, Any] = {name: 7 if name in NUMBERS else f"<{name}>" for name in names}
    finding = {"code": str(code), "values": values, "text": "", "remedy": "", "is_note": False}
    view = StatusView(status_values(0) | {"findings": [finding]})
    html = unescape(text_of(PageApp(ChosenBackend(view=view)).get("/system", accept_language=language)))
    for part in ("finding", "remedy"):
        shown = {one: said(one, f"{part}.{code}", **values) in html for one in LANGUAGES}
        assert shown == {one: one == language for one in LANGUAGES}


@pytest.mark.parametrize(
    ("problem", "key"),
    [
        (busy("2,000 are under way"), "problem.busy"),
        (not_ready("opening"), "problem.not-ready"),
        (ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "timeout", "30 s"), "problem.timeout"),
        (ProblemError(HTTPStatus.CONFLICT, "other-scheme", "<scheme>"), "problem.other-scheme"),
        (ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", "<x>"), "problem.other"),
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_check_without_an_answer(problem: ProblemError, key: str, language: str) -> None:
    """The page keeps the text, has the problem's status, and says it in plain words."""
    answer = PageApp(ChosenBackend(answer=problem)).post(
        "/check", b"field.text=my+words", **FORM, accept_language=language
    )
    assert answer.status == problem.status
    html = text_of(answer)
    assert "my words</textarea>" in html
    assert said(language, key) in html
    shows_detail = problem.name in {"other-scheme", "invalid-request"}
    assert (problem.detail.replace("<", "&lt;").replace(">", "&gt;") in html) == shows_detail


def test_rejected_and_featureless_texts() -> None:
    """The reason is said in the reader's language, with its numbers; a text without words is near nothing."""
    rejected = check_answer(
        verdict="rejected",
        kind="rejected",
        signature=None,
        fingerprint=None,
        reason="empty text",
        reason_code="empty_text",
    )
    html = checked(ChosenBackend(answer=rejected), language="zh")
    assert said("zh", "reason.empty_text") in html
    assert said("zh", "check.nearest") not in html
    featureless = check_answer(kind="featureless", signature=None)
    assert said("en", "check.said.featureless") in checked(ChosenBackend(answer=featureless))


@pytest.mark.parametrize("absence", TextAbsence)
def test_a_text_that_is_not_there(absence: TextAbsence) -> None:
    """The page says why; the rest of it stays."""
    at = Coordinates(TOPIC_ID.bytes, 0, SourceOffset(3))
    backend = ChosenBackend(
        answer=check_answer(verdict="duplicate", nearest=[nearest_value()]), known={at: ArticleText(None, absence)}
    )
    html = checked(backend)
    assert said("en", f"absent.{absence}") in html
    assert said("en", "check.bits.none") in html


def test_a_text_that_does_not_come_in_time() -> None:
    """A reader is told to try again."""
    backend = ChosenBackend(answer=check_answer(nearest=[nearest_value()]))
    assert said("en", "absent.no_broker") in checked(backend)


def test_fields_and_scope() -> None:
    """Records of several fields have an input for each; scope and id are given only where they are filled in."""
    backend = ChosenBackend(format=InputFormat(fields=("title", "body"), scope_field="scope"))
    html = text_of(PageApp(backend).get("/check"))
    assert re.findall(r'name="(field\.[a-z]+|id|scope)"', html) == ["field.title", "field.body", "id", "scope"]
    checked(backend, b"field.title=A&field.body=B%0D%0AC&scope=news&id=")
    checked(backend, b"field.title=A&field.body=&scope=&id=+7+")
    assert [one.model_dump(exclude_unset=True) for one in backend.checked] == [
        {"fields": {"title": "A", "body": "B\nC"}, "scope": "news"},
        {"fields": {"title": "A"}, "id": "7"},
    ]


def test_fields_of_the_form_may_be_paths() -> None:
    """Each text is given where its path leads, beside the others."""
    paths = ("page.title", "turns[].text", "turns[].by")
    form = CheckForm(dict.fromkeys(paths, "x") | {"page.title": "T"})
    article = form.article(InputFormat(fields=paths))
    assert article.fields == {"page": {"title": "T"}, "turns": [{"text": "x", "by": "x"}]}


def test_an_article_of_the_stream_is_checked_as_it_was_logged() -> None:
    """Each field where it belongs, since they have weights of their own, and in its scope."""
    at = Coordinates(TOPIC_ID.bytes, 0, SourceOffset(3))
    store: Any = EmptyStore()
    store.article = lambda _: ClusteredArticle(  # the one question that is asked
        at, "articles", "a", Verdict.UNIQUE, None, None, None, None, 0, 0, Partition("unique", 0), 0
    )
    fmt = InputFormat(fields=("title", "lead", "body"), scope_field="scope")
    article = Article("a", ("A", "", "B"), scope="news")
    known = {at: ArticleText(article, shown=ShownArticle.of("A\nB", None))}
    backend = ChosenBackend(format=fmt, state=ClustersState(store), known=known)
    PageApp(backend).get(f"/check?article={cluster_id_of(at)}")
    (given,) = backend.checked
    assert given.model_dump(exclude_unset=True) == {"fields": {"title": "A", "body": "B"}, "scope": "news"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "http://localhost:8787"}, 403),
        ({"origin": "http://localhost:8787"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:8787.evil.example"}, 403),
        ({"origin": "http://localhost:8788"}, 403),
        ({"origin": "null"}, 403),
        ({}, 200),  # no browser: a program that has the token, or runs here
        ({"content_type": "text/plain"}, 415),
    ],
)
@pytest.mark.parametrize("path", ["/check", "/preferences"])
def test_a_form_of_another_site_is_refused(path: str, headers: dict[str, str], status: int) -> None:
    """By what the browser says of the page that sent it; a body that is no form is refused whoever sends it."""
    backend = ChosenBackend()
    answer = PageApp(backend).post(path, b"field.text=a", **{"content_type": FORM["content_type"]} | headers)
    expected = HTTPStatus.SEE_OTHER if path == "/preferences" and status == HTTPStatus.OK else status
    assert answer.status == expected
    assert bool(backend.checked) == (path == "/check" and status == HTTPStatus.OK)


@pytest.mark.parametrize("body", [b"\xff\xfe", b"&".join(b"a%d=1" % at for at in range(100))])
def test_a_body_that_is_no_form(body: bytes) -> None:
    """It is refused."""
    assert PageApp(ChosenBackend()).post("/check", body, **FORM).status == HTTPStatus.UNPROCESSABLE_ENTITY


@pytest.mark.parametrize(
    ("back", "location"),
    [
        ("/clusters?window=day", "/clusters?window=day"),
        ("//evil.example/", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\nSet-Cookie: x=1", "/"),
        ("", "/"),
    ],
)
def test_preferences_lead_back_to_this_service_only(back: str, location: str) -> None:
    """The address to go back to is a path of the service."""
    body = urlencode({"language": "zh", "theme": "dark", "back": back}).encode()
    answer = PageApp(ChosenBackend()).post("/preferences", body, **FORM)
    assert (answer.status, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, location)


def test_language_and_theme_are_kept() -> None:
    """Cookies say them; a value that is none is not taken."""
    app = PageApp(ChosenBackend())
    html = text_of(app.get("/check", cookie="language=zh; theme=dark", accept_language="en"))
    assert '<html lang="zh-Hans" data-theme="dark">' in html
    assert '<html lang="en" data-theme="auto">' in text_of(app.get("/check", cookie="language=xx; theme=<b>"))
    answer = app.post("/preferences", b"language=xx&theme=dark&back=/", **FORM)
    assert answer.headers["set-cookie"].startswith("theme=dark;")
    assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))


@pytest.mark.parametrize(
    "name", ["", "../routes.py", "..%2froutes.py", "/etc/passwd", "pages.css/", "README", "uplot/LICENSE", "PAGES.css"]
)
def test_only_the_files_of_the_pages_are_there(name: str) -> None:
    """Whatever a path says."""
    assert PageApp(ChosenBackend()).get(f"/assets/{name}").status == HTTPStatus.NOT_FOUND


def test_files_are_named_with_their_version() -> None:
    """Every file that a page names is there, and what it names changes with the content."""
    app = PageApp(ChosenBackend())
    named = re.findall(r'(?:src|href)="(/assets/[^"]+)"', text_of(app.get("/check")))
    assert len(named) == 5
    for path in named:
        answer = app.get(path)
        assert answer.status == HTTPStatus.OK
        assert hashlib.sha256(answer.body).hexdigest().startswith(path.partition("?v=")[2])


def test_uplot_is_the_one_that_was_published() -> None:
    """The vendored files are those of the package, byte for byte."""
    app = PageApp(ChosenBackend())
    hashes = {name: hashlib.sha256(app.get(f"/assets/uplot/{name}").body).hexdigest() for name in UPLOT}
    assert hashes == UPLOT


READ_MS = 1_700_000_000_000
SILENT_POSITION = STATES["notice.broker.title"]
READ_AT = "2023-11-14 22:13:20"


class ChosenService:
    """A service whose brokers answer, or do not, at a time that the test sets."""

    def __init__(self) -> None:
        self.config = load_config(None, {"kafka": {"group": "g"}, "topics": {"input": ["t"]}}, {})
        self.at_s = 1000.0
        self.answer: dict[str, Any] | None = None
        self.clock = SimpleNamespace(monotonic=lambda: self.at_s, time_ms=lambda: int(self.at_s * 1000))
        self.group_status = SimpleNamespace(read=self._read, last=None)

    async def _read(self) -> dict[str, Any]:
        if self.answer is None:
            raise not_ready("no broker answers")
        self.group_status.last = StatusValues(self.answer, int(self.at_s * 1000))
        return self.answer

    def pages(self) -> PageBackend:
        return PageBackend(self)  # type: ignore[arg-type] # the parts that a state of the group needs


def test_the_state_of_the_group_is_kept() -> None:
    """Without an answer it is the last one: as it was for some seconds, then with the error; an answer replaces it."""
    service = ChosenService()
    pages = service.pages()

    def status() -> StatusView:
        return asyncio.run(pages.status())

    assert (status().values, status().is_old) == (None, False)
    assert status().error is not None
    service.answer = {"lag": 1}
    assert status() == StatusView({"lag": 1}, None, 1_000_000)
    service.answer = None
    service.at_s += RECENT_S
    assert status() == StatusView({"lag": 1}, None, 1_000_000)
    service.at_s += 0.1
    old = status()
    assert (old.values, old.read_ms, old.is_old) == ({"lag": 1}, 1_000_000, True)
    service.answer = {"lag": 2}
    assert status() == StatusView({"lag": 2}, None, 1_010_100)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", ["/live", "/system"])
def test_old_values_are_shown_as_old(path: str, language: str) -> None:
    """With the time at which they were read; values of now have no such mark."""
    late = ShownError(ErrorKind.LATE)
    for error, is_old in ((late, True), (None, False)):
        backend = ChosenBackend(view=StatusView(status_values(5) | {"lag": 4321}, error, READ_MS))
        html = text_of(PageApp(backend).get(path, accept_language=language))
        assert "4,321" in html
        assert (said(language, "old", time=READ_AT) in html) is is_old
        assert (' class="old"' in html or ' class="figures old"' in html) is is_old


def test_rates_of_the_last_seconds() -> None:
    """They are those of the stream; while no broker answers there are none."""
    meter = RateMeter()
    for second in range(5):
        rates = meter.rates(VerdictCounts(unique=10 * second), float(second))
    assert rates == VerdictRates(10, 0, 0)
    view = live_page(ChosenBackend(at=SILENT_POSITION, state=ClustersState(EMPTY)), meter, READ_MS, 6.0)
    assert asyncio.run(view).rates is None
