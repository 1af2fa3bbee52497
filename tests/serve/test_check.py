"""POST /v1/check: the verdict that an article would have, its nearest articles, and what is refused.

On a broker: a check says what a worker then says, and a service that was killed says what one says that was not.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.core.decode import InputFormat, RawRecord, decode, parse_object
from stream_dedup.core.paths import NativePath
from stream_dedup.serve.checking import GivenArticle, name_paths, raw_of
from stream_dedup.serve.routing import SMALL_BODY
from tests.amount import FULL
from tests.serve.clients import ANSWER_S
from tests.serve.comparing import Served, checked_and_judged, served
from tests.serve.served import MemoryService
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records

STORY = "渡口的船今天早上开了，船上有三十二名乘客，他们大多去对岸的市场卖菜，傍晚再坐同一条船回来。"
EDITED = STORY.replace("三十二", "三十三")
OTHER = "The council approved the new bridge after a long debate, and the works will begin in the spring of next year."


def value(article_id: str, text: str) -> bytes:
    return json.dumps({"id": article_id, "text": text}).encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A service whose log has a story, a copy of it, and another one."""
    made = MemoryService(tmp_path_factory.mktemp("serve"))
    made.begin_log()
    made.log_articles([value("a", STORY), value("b", STORY), value("c", OTHER)])
    with made.serve():
        yield made


@pytest.mark.slow
def test_a_known_text_is_a_duplicate(service: MemoryService) -> None:
    """The answer has the match, every near article, and the log offset that it holds for."""
    answer = service.call("POST", "/v1/check", {"text": EDITED})
    assert answer.status == 200
    assert answer.json["log"]["offset"] == 2
    (result,) = answer.json["results"]
    assert (result["verdict"], result["copies"], result["match"]["id"]) == ("duplicate", 2, "a")
    assert [near["id"] for near in result["nearest"]] == ["a", "b"]
    assert result["match"]["source"] == {
        "topic": "articles",
        "topic_id": "746f7069-632d-6964-0000-000000000001",
        "partition": 0,
        "offset": 0,
    }


def test_the_answer_has_as_many_near_articles_as_asked_for(service: MemoryService) -> None:
    """``top`` is a limit, 0 included; the verdict is the same."""
    answers = [service.call("POST", "/v1/check", {"text": STORY, "top": top}).json["results"][0] for top in (0, 1, 9)]
    assert [len(one["nearest"]) for one in answers] == [0, 1, 2]
    assert len({json.dumps(one | {"nearest": None}) for one in answers}) == 1


def test_nothing_is_inserted(service: MemoryService) -> None:
    """A new text is unique however often it is checked."""
    new = {"text": "A text that nobody has sent before, about the history of lighthouses on the western coast."}
    assert {service.call("POST", "/v1/check", new).json["results"][0]["verdict"] for _ in range(3)} == {"unique"}


def test_many_articles_are_checked_in_their_order(service: MemoryService) -> None:
    """Each is judged for itself: two equal new texts are both unique; the unreadable is rejected with its reason."""
    new = "Eine Nachricht, die noch niemand gesendet hat, über die Geschichte der Leuchttürme an der Küste."
    articles = [{"text": new}, {"text": STORY}, {"text": new}, {"text": " "}, {"text": 7}, {"fields": {"title": "x"}}]
    results = service.call("POST", "/v1/check", {"articles": articles}).json["results"]
    assert [one["verdict"] for one in results] == ["unique", "duplicate", "unique", *["rejected"] * 3]
    assert [one["reason"] for one in results[3:]] == [
        "empty text",
        "text field text is no text but a number",
        "text field text is missing",
    ]
    assert [one["reason_code"] for one in results[3:]] == ["empty_text", "invalid_field", "missing_field"]


@pytest.fixture(scope="module")
def nested_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A service of records with paths, whose log has a story with the id 4711."""
    paths = {"id_field": "meta.id", "text_field": "turns[].text", "scope_field": "meta.site"}
    made = MemoryService(tmp_path_factory.mktemp("nested"), input=paths, match={"recrawl": "update"})
    made.begin_log()
    logged = {"meta": {"id": 4711, "site": 7}, "turns": [{"text": STORY[:20]}, {"text": STORY[20:]}]}
    made.log_articles([json.dumps(logged).encode()])
    with made.serve():
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "verdict", "is_update"),
    [
        ('{"text": "%s\\n%s", "id": 1, "scope": 7}', "duplicate", False),
        ('{"text": "%s\\n%s", "id": 4711.0, "scope": 7.0}', "unique", True),
        ('{"articles": [{"text": "%s\\n%s", "id": 4.711e3, "scope": "7"}]}', "unique", True),
        (
            '{"fields": {"turns": [{"text": "%s"}, {"text": "%s"}], "meta": {"id": 47110e-1, "site": 7}}}',
            "unique",
            True,
        ),
        ('{"fields": {"turns": [{"text": "%s"}, {"text": "%s"}], "meta": {"site": 7, "x": {}}}}', "duplicate", False),
        ('{"text": "%s\\n%s", "fields": {"meta": {"site": 8}}}', "unique", False),
    ],
)
def test_fields_of_requests_are_those_of_records(
    nested_service: MemoryService, body: str, verdict: str, is_update: bool
) -> None:
    """By path, and a whole number is one id and one scope however it is written."""
    (result,) = nested_service.call("POST", "/v1/check", (body % (STORY[:20], STORY[20:])).encode()).json["results"]
    assert (result["verdict"], result["match"] is not None and result["verdict"] == "unique") == (verdict, is_update)


@pytest.mark.parametrize(
    ("body", "article_id"),
    [
        (b'{"text": "a", "id": 1.50}', "1.50"),
        (b'{"text": "a", "id": 1234567890123456789012345678901234567890.0}', "1234567890" * 4),
        (b'{"fields": {"id": 1234567890123456789012345678901234567890, "text": "a"}}', "1234567890" * 4),
        (b'{"articles": [{"fields": {"id": 1.50, "text": "\\ud83d a"}}]}', "1.50"),
        (b'{"a": {"text": "a", "id": 4711.0}, "b": {"fields": {"id": 1.50}}}', "4711"),
    ],
)
def test_numbers_of_ids_are_not_rounded(body: bytes, article_id: str) -> None:
    """They are in the source record as the request has them, wherever it has them."""
    fmt = InputFormat()
    parsed = parse_object(body, name_paths(fmt))
    assert isinstance(parsed, dict)
    (given, *_) = parsed.get("articles", [parsed.get("a", parsed)])
    article = decode(raw_of(GivenArticle.model_validate(given), fmt), fmt)
    assert article.id == article_id


@pytest.mark.parametrize(
    ("fields", "fmt"),
    [
        ('{"text": "a", "title": 1e400}', InputFormat(fields=("title", "text"))),
        ('{"text": "a", "title": -1e400}', InputFormat(fields=("title", "text"))),
        ('{"text": "a", "site": 7}', InputFormat(fields=("site", "text"), scope_field="site")),
        ('{"text": "a", "site": {"id": 7.0}}', InputFormat(fields=("site", "text"), scope_field="site.id")),
        ('{"text": ["a", 7]}', InputFormat(id_field="text[1]")),
        ('{"talk": [{"text": "a"}, {"text": 7}]}', InputFormat(text_field="talk[].text", id_field="talk[1].text")),
        ('{"text": {"id": 7.0, "more": "a"}}', InputFormat(text_field="text.more", id_field="text.id")),
        ('{"a": 7.50, "text": "a"}', InputFormat(id_field="a", fields=("a.b", "text"))),
    ],
)
def test_fields_of_a_request_are_read_as_a_record(fields: str, fmt: InputFormat) -> None:
    """A number that no float holds, or that stands where a text and an id or scope are, is no text."""
    parsed = parse_object(b'{"fields": %b}' % fields.encode(), name_paths(fmt))
    record = RawRecord(None, fields.encode(), "(not logged)")
    assert decode(raw_of(GivenArticle.model_validate(parsed), fmt), fmt) == decode(record, fmt)


def test_an_article_that_is_logged_is_known_at_once(service: MemoryService) -> None:
    """The service follows the log."""
    text = "Le pont sera fermé pendant trois semaines pour des travaux, annonce la mairie dans un communiqué."
    assert service.call("POST", "/v1/check", {"text": text}).json["results"][0]["verdict"] == "unique"
    offset = service.log_articles([value("d", text)])
    service.wait_ready()
    answer = service.call("POST", "/v1/check", {"text": text}).json
    assert (answer["log"]["offset"], answer["results"][0]["match"]["id"]) == (offset + 1, "d")


def test_half_of_an_emoji_is_read_as_a_worker_reads_it(service: MemoryService) -> None:
    """A crawler cut a text in two: the JSON grammar allows it, and the worker too."""
    (result,) = service.call("POST", "/v1/check", b'{"text": "a cut emoji \\ud83d in a text of several words"}').json[
        "results"
    ]
    assert result["verdict"] == "unique"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"[]", "#"),
        (b"null", "#"),
        (b"7", "#"),
        (b'"a"', "#"),
        (b"{", "#"),
        (b'{"text": "\xff"}', "#"),
        (b'{"text": ' + b"[" * 600 + b"]" * 600 + b"}", "#"),
        (b"{}", "#"),
        (b'{"text": "a", "articles": [{"text": "b"}]}', "#"),
        (b'{"articles": []}', "#/articles"),
        (b'{"articles": [7]}', "#/articles/0"),
        (b'{"articles": {"0": {}}}', "#/articles"),
        (b'{"articles": [{"txt": "b"}]}', "#/articles/0/txt"),
        (b'{"text": "a", "~/% \xe6\xb8\xa1": 1}', "#/~0~1%25%20%E6%B8%A1"),
        (b'{"text": "a", "\\ud83d": 1}', "#"),
        (b'{"text": "a", "%s": 1}' % (b"a" * 101), "#"),
        (b'{"text": "a", "top": 33}', "#/top"),
        (b'{"text": "a", "top": "many"}', "#/top"),
        (b'{"text": "a", "top": 1, "top": "many"}', "#/top"),
        (b'{"text": "a", "fields": []}', "#/fields"),
        (b'{"text": "a", "id": {}}', "#/id"),
        (b'{"text": "a", "id": {"str": 1}}', "#/id"),
        (b'{"text": "a", "id": true}', "#/id"),
        (b'{"text": "a", "id": [1]}', "#/id"),
        (b'{"text": "a", "id": NaN}', "#"),
        (b'{"text": "a", "scope": 36893488147419103232}', "#/scope"),
        (b'{"text": "a", "scope": "site"}', "#/scope"),
        (b'{"articles": [{"text": "a"}, {"text": "a", "scope": 1}]}', "#/articles/1/scope"),
    ],
)
def test_a_request_of_another_form_is_refused(service: MemoryService, body: bytes, pointer: str) -> None:
    """With a problem that names the place: one that the body has."""
    answer = service.call("POST", "/v1/check", body)
    assert (answer.status, answer.headers["content-type"]) == (422, "application/problem+json")
    assert [one["pointer"] for one in answer.json["errors"]] == [pointer]
    assert answer.json["type"] == "urn:stream-dedup:problem:invalid-request"


TYPE_REFUSED = ("accept", "application/json")
CODING_REFUSED = ("accept-encoding", "identity")


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"Content-Type": "application/json"}, None),
        ({"Content-Type": "Application/JSON; Charset=UTF-8"}, None),
        ({"Content-Type": 'application/json; charset="utf-8"; version=1'}, None),
        ({}, TYPE_REFUSED),
        ({"Content-Type": ""}, TYPE_REFUSED),
        ({"Content-Type": "text/plain"}, TYPE_REFUSED),
        ({"Content-Type": "application/x-www-form-urlencoded"}, TYPE_REFUSED),
        ({"Content-Type": "application/problem+json"}, TYPE_REFUSED),
        ({"Content-Type": "application/json, text/plain"}, TYPE_REFUSED),
        ({"Content-Type": "application/json; charset=gb18030"}, TYPE_REFUSED),
        ({"Content-Type": "application/json; charset="}, TYPE_REFUSED),
        ({"Content-Type": "application/json; charset*0*=x; charset*=''; a*b*=1"}, None),
        ({"Content-Type": "application/json" + ";" * 30_000}, None),
        ({"Content-Encoding": "identity"}, None),
        *(({"Content-Encoding": coding}, CODING_REFUSED) for coding in ("gzip", "x-gzip", "deflate", "br", "zstd")),
        ({"Content-Encoding": "identity, GZIP"}, CODING_REFUSED),
        ({"Content-Encoding": "aes128gcm"}, CODING_REFUSED),
    ],
)
def test_a_body_is_json_in_utf_8_without_a_coding(
    service: MemoryService, headers: dict[str, str], refused: tuple[str, str] | None
) -> None:
    """Else the answer is 415 and names what is read; it says nothing of the members of the body."""
    typed = headers if "Content-Type" in headers or not headers else {"Content-Type": "application/json"} | headers
    body = b'{"text": "a"}'
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=ANSWER_S)) as connection:
        connection.request("POST", "/v1/check", body, typed)
        answer = connection.getresponse()
        values = json.loads(answer.read())
    if refused is None:
        assert answer.status == 200
    else:
        name, read = refused
        assert (answer.status, answer.getheader(name), answer.getheader("content-type")) == (
            415,
            read,
            "application/problem+json",
        )
        assert (values["type"], "errors" in values) == ("urn:stream-dedup:problem:unsupported-media-type", False)


def test_a_request_without_a_body_is_refused(service: MemoryService) -> None:
    """The answer names no place of a body that there is not."""
    answer = service.call("POST", "/v1/check")
    assert (answer.status, answer.json["detail"]) == (422, "the request has no body; send a JSON object")
    assert "errors" not in answer.json


def test_a_large_body_is_parsed_while_others_are_answered(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight megabytes of brackets take more than a second."""
    begun, answered = threading.Event(), threading.Event()

    def parse(body: bytes, names: Sequence[NativePath]) -> dict[str, Any] | str:
        begun.set()
        assert answered.wait(30)
        return parse_object(body, names)

    monkeypatch.setattr("stream_dedup.serve.routing.parse_object", parse)
    answers: list[int] = []
    large = {"text": "a" * (SMALL_BODY + 1)}
    asking = threading.Thread(target=lambda: answers.append(service.call("POST", "/v1/check", large).status))
    asking.start()
    assert begun.wait(30)
    assert service.call("GET", "/healthz").status == 200
    answered.set()
    asking.join(60)
    assert answers == [200]


@pytest.mark.parametrize("path", ["/v1/check", "/v1/explain"])
def test_many_unknown_members_are_one_error(service: MemoryService, path: str) -> None:
    """A list of a million errors would hold up every other client for seconds."""
    strange = {f"{number:x}": 0 for number in range(1000)}
    answer = service.call("POST", path, strange)
    assert (answer.status, len(answer.json["errors"])) == (422, 1)
    assert answer.json["errors"][0]["detail"] == "an object of this form has at most 16 members"
    if path == "/v1/check":
        errors = service.call("POST", path, {"articles": [strange] * 3}).json["errors"]
        assert [one["pointer"] for one in errors] == [f"#/articles/{at}" for at in range(3)]


def test_too_many_articles_are_refused(service: MemoryService) -> None:
    """501 are one too many; 500 are not."""
    assert service.call("POST", "/v1/check", {"articles": [{"text": "a"}] * 501}).status == 422
    assert len(service.call("POST", "/v1/check", {"articles": [{"text": "a"}] * 500}).json["results"]) == 500


def test_a_scope_that_the_records_do_not_have_is_refused(service: MemoryService) -> None:
    """It would be ignored, and the article be compared with all others."""
    answer = service.call("POST", "/v1/check", {"text": "a", "scope": "site"})
    assert (answer.status, answer.json["detail"]) == (
        422,
        "scope: the configuration has no input.scope_field",
    )


def test_what_a_request_may_be_is_described(service: MemoryService) -> None:
    """The description has every route of programs, and examples that are answered."""
    described = service.call("GET", "/v1/openapi.json").json
    assert set(described["paths"]) >= {"/v1/check", "/metrics", "/healthz", "/readyz"}
    for example in described["components"]["schemas"]["CheckRequest"]["examples"]:
        assert service.call("POST", "/v1/check", example).status == 200


@pytest.mark.slow
def test_there_is_no_answer_before_the_log_is_read(tmp_path: Path) -> None:
    """No log yet: the service says so, and waits; when there is one, it answers."""
    made = MemoryService(tmp_path)
    with made.serve(until_ready=False):
        answer = made.call("POST", "/v1/check", {"text": STORY})
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "there is no log yet" in answer.json["detail"] or answer.json["detail"] == "starting"
        assert (made.call("GET", "/readyz").status, made.call("GET", "/healthz").status) == (503, 200)
        made.begin_log()
        made.wait_ready()
        assert made.call("POST", "/v1/check", {"text": STORY}).json["results"][0]["verdict"] == "unique"
        assert made.call("GET", "/readyz").status == 200


ARTICLES = 100 if FULL else 20
SEED = 20261123
KILLS = 5


@pytest.mark.parametrize("match", [{}, {"recrawl": "update", "copies": 2, "window": "1h"}], ids=["plain", "versions"])
def test_a_check_says_what_a_worker_then_says(make_pipeline: MakePipeline, match: dict[str, str]) -> None:
    """Verdict, fingerprint, match, distance, similarity, copies and reason of each article, before it is logged."""
    made = make_pipeline(match=match)
    worker = made.start()
    values = [value for _, value in records(ARTICLES, SEED)]
    values += [value.replace(b'"text"', b'"text": 1, "again"') for value in values[:2] if value is not None]
    values += [b'{"id": "empty", "text": "   "}', b'{"id": "dots", "text": "..."}', *values[5:9]]
    with served(made) as service:
        pairs = checked_and_judged(made, service, values)
        service.stop()
    made.stop(worker)
    assert len(pairs) > ARTICLES
    assert {judged.verdict for _, judged in pairs} == {"unique", "duplicate", "rejected"}
    assert [checked for checked, _ in pairs] == [judged for _, judged in pairs]


def answers_of(service: Served, texts: list[str]) -> list[object]:
    """Results of a check of all texts."""
    service.wait_ready()
    with service.client() as client:
        answer = client.call("POST", "/v1/check", {"articles": [{"text": text} for text in texts], "top": 9}).json
        return [answer["log"]["offset"], *answer["results"]]


def test_a_service_that_was_killed_answers_as_another_one(make_pipeline: MakePipeline) -> None:
    """Killed at random moments of its start and its work, while articles are logged; then started again."""
    made = make_pipeline()
    worker = made.start()
    stream = records(600, SEED)
    texts = [f"{value.decode()[:400]}" for _, value in stream[:200] if value is not None and value[:1] == b"{"]
    rng = random.Random(SEED)
    service = Served(made)
    try:
        for part in range(KILLS):
            made.produce(stream[part * 100 : part * 100 + 100])
            service.start()
            time.sleep(rng.uniform(0.1, 1.5))  # the moment is drawn: no condition is waited for
            service.kill()
        made.wait_done()
        made.stop(worker)
        service.start()
        with served(made, "fresh") as fresh:
            # Each follows the log and the outputs on its own: what a check says of clusters comes with the outputs.
            wait_until(lambda: answers_of(service, texts) == answers_of(fresh, texts), 60, "both say the same")
    finally:
        service.kill()
