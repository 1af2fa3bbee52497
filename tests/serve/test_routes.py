"""The other routes: explanations, articles, clusters, verdicts; and their pages of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.entry import Withdrawal
from stream_dedup.core.model import Coordinates, Judgement, LogOffset, SourceOffset, log_position
from stream_dedup.ports import Partition
from stream_dedup.serve.follower import TopicPorts
from stream_dedup.serve.reading import SourceTexts, TextAbsence
from tests.amount import examples
from tests.headers import output_headers
from tests.memory.partition import Message
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, avro_data, frame, registry_config
from tests.serve.clients import Client
from tests.serve.served import TOPIC, MemoryService
from tests.waiting import wait_until

STORY = "渡口的船今天早上开了，船上有三十二名乘客，他们大多去对岸的市场卖菜，傍晚再坐同一条船回来。"
EDITED = STORY.replace("三十二", "三十三")
OTHER = "The council approved the new bridge after a long debate, and the works will begin in the spring of next year."
CUT = "The pilots of the harbour waited for \ud83d until the fog was gone, and then took the ship into the dock. \ud83d"
CUT_ID = "cut\nin %two/\n"
ARTICLES = [
    ("https://example.org/a?b=1", STORY),
    ("b", EDITED),
    ("c", OTHER),
    ("b", EDITED),
    ("empty", " "),
    (CUT_ID, CUT),
]


def write_outputs(made: MemoryService, judgements: list[Judgement], values: list[bytes]) -> None:
    """Write outputs as a worker would."""
    for offset, (judgement, value) in enumerate(zip(judgements, values, strict=True)):
        topic = getattr(made.config.topics, str(judgement.verdict))
        at = Coordinates(made.topic_id, 0, SourceOffset(offset))
        headers = output_headers(judgement, 0, "scheme", TOPIC, at, made.cluster.time_ms())
        partition = made.cluster.partition(Partition(topic, 0))
        made.cluster.append(partition, Message(b"key", value, tuple(headers), made.cluster.time_ms()))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A service whose articles have verdicts in the output topics."""
    made = MemoryService(tmp_path_factory.mktemp("routes"))
    for topic in (made.config.topics.unique, made.config.topics.duplicate, made.config.topics.rejected):
        made.cluster.make_topic(topic)
    made.begin_log()
    values = [json.dumps({"id": name, "text": text}).encode() for name, text in ARTICLES]
    made.log_articles(values)
    with made.serve() as running:
        judged = running.follower.ask(lambda index: index.judge((1 << 20) + _rows(len(values)))).result()
        write_outputs(made, judged, values)

        def is_followed() -> bool:
            answer = made.call("GET", "/v1/verdicts")
            return answer.status == 200 and len(answer.json["latest"]) == len(ARTICLES)

        wait_until(is_followed, 30, "the outputs are followed")
        yield made


def _rows(count: int) -> Any:  # noqa: ANN401 - an array
    import numpy as np  # noqa: PLC0415

    return np.arange(count)


@pytest.mark.slow
def test_an_article_is_found_by_its_id(service: MemoryService) -> None:
    """Newest first, with its cluster and its text from the source topic; an id may be a URL."""
    answer = service.call("GET", "/v1/articles/b").json
    assert [one["source"]["offset"] for one in answer["articles"]] == [3, 1]
    assert {one["text"] for one in answer["articles"]} == {EDITED}
    assert len({one["cluster"] for one in answer["articles"]}) == 1
    (first,) = service.call("GET", "/v1/articles/https://example.org/a%3Fb=1").json["articles"]
    assert (first["text"], first["cluster"], first["match"]) == (STORY, answer["articles"][0]["cluster"], None)
    assert "text" not in service.call("GET", "/v1/articles/b?texts=false").json["articles"][0]


def test_a_text_that_was_cut_within_a_character_is_shown(service: MemoryService) -> None:
    """With half of an emoji, as its record has it, whatever signs its id has; so are features of such texts."""
    (found,) = service.call("GET", f"/v1/articles/{quote(CUT_ID)}").json["articles"]
    assert (found["id"], found["text"]) == (CUT_ID, CUT)
    answer = service.call("POST", "/v1/explain", {"a": {"id": CUT_ID}, "b": {"text": CUT}})
    assert (answer.status, answer.json["verdict"]) == (200, "duplicate")


def test_an_unknown_id_is_not_found(service: MemoryService) -> None:
    """Nor is an empty one, or a list of none."""
    assert service.call("GET", "/v1/articles/nobody").status == 404
    assert service.call("GET", "/v1/articles/").status == 422
    assert service.call("GET", "/v1/articles/b?limit=0").status == 422


def test_clusters_are_listed_and_shown(service: MemoryService) -> None:
    """The largest of a window, with the totals; one of them with its growth and its articles."""
    listed = service.call("GET", "/v1/clusters?window=hour").json
    (cluster,) = listed["clusters"]
    assert (cluster["size"], cluster["first"]["id"]) == (3, "https://example.org/a?b=1")
    assert (listed["totals"]["unique"], listed["totals"]["duplicates"]) == (3, 2)
    assert listed["totals"]["rejected"] == {"empty_text": 1}
    assert listed["outputs"]["problem"] is None
    shown = service.call("GET", f"/v1/clusters/{cluster['id']}?window=day&limit=2&texts=true").json
    assert [one["id"] for one in shown["members"]] == ["https://example.org/a?b=1", "b"]
    assert [one["text"] for one in shown["members"]] == [STORY, EDITED]
    assert sum(bucket["articles"] for bucket in shown["growth"]) == 3
    rest = service.call("GET", f"/v1/clusters/{cluster['id']}?limit=2&after={shown['after']}").json
    assert ([one["id"] for one in rest["members"]], rest["after"]) == (["b"], None)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/clusters/nothing", 404),
        ("/v1/clusters/00000000-0000-0000-0000-000000000000-0-0", 404),
        ("/v1/clusters?window=century", 422),
        ("/v1/clusters?limit=201", 422),
        ("/v1/verdicts?limit=-1", 422),
    ],
)
def test_what_is_no_cluster_is_refused(service: MemoryService, path: str, status: int) -> None:
    """Unknown ones, and parameters out of range."""
    assert service.call("GET", path).status == status


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/articles/", ["article_id"]),
        (f"/v1/clusters/{'a' * 101}?limit=0&window=1&texts=2", ["cluster_id", "window", "limit", "texts"]),
        ("/v1/verdicts?limit=x", ["limit"]),
    ],
)
def test_a_parameter_is_named(service: MemoryService, path: str, parameters: list[str]) -> None:
    """Without a pointer into a body."""
    errors = service.call("GET", path).json["errors"]
    assert [one["parameter"] for one in errors] == parameters
    assert not any("pointer" in one for one in errors)


def test_a_page_that_no_answer_named_is_refused(service: MemoryService) -> None:
    """The cursor is what an answer said, nothing else."""
    (cluster,) = service.call("GET", "/v1/clusters").json["clusters"]
    answer = service.call("GET", f"/v1/clusters/{cluster['id']}?after=elsewhere")
    assert (answer.status, answer.json["errors"]) == (
        422,
        [{"parameter": "after", "detail": "after: no answer named this place"}],
    )


def test_the_matches_of_a_check_have_their_clusters(service: MemoryService) -> None:
    """So a page can lead from a text to the story that it belongs to."""
    (result,) = service.call("POST", "/v1/check", {"text": EDITED}).json["results"]
    (cluster,) = service.call("GET", "/v1/clusters").json["clusters"]
    assert {near["cluster"] for near in result["nearest"]} == {result["match"]["cluster"]} == {cluster["id"]}


def test_two_texts_are_explained(service: MemoryService) -> None:
    """As `stream-dedup explain` does, under the rules of the log."""
    answer = service.call("POST", "/v1/explain", {"a": {"text": STORY}, "b": {"text": EDITED}})
    assert answer.status == 200
    assert (answer.json["verdict"], answer.json["found"]) == ("duplicate", True)
    assert (answer.json["a"]["text"], answer.json["b"]["text"]) == (STORY, EDITED)
    assert len(answer.json["a"]["sums"]) == 256
    assert (
        service.call("POST", "/v1/explain", {"a": {"text": OTHER}, "b": {"text": EDITED}}).json["verdict"] == "unique"
    )


def test_a_logged_article_is_explained_with_its_text(service: MemoryService) -> None:
    """By its id, and by the source that an answer names."""
    by_id = service.call("POST", "/v1/explain", {"a": {"id": "c"}, "b": {"text": OTHER}}).json
    assert (by_id["verdict"], by_id["a"]["text"], by_id["distance"]) == ("duplicate", OTHER, 0)
    (result,) = service.call("POST", "/v1/check", {"text": OTHER}).json["results"]
    by_source = service.call("POST", "/v1/explain", {"a": {"source": result["match"]["source"]}, "b": {"text": OTHER}})
    assert by_source.json == by_id


def test_a_logged_article_whose_text_is_gone_is_explained_by_its_entry(service: MemoryService) -> None:
    """Signature, blocks and distances are in the log; features and sums are not known."""
    source = service.cluster.partition(Partition(TOPIC, 0))
    start, source.start = source.start, 1
    try:
        answer = service.call("POST", "/v1/explain", {"a": {"id": "https://example.org/a?b=1"}, "b": {"text": EDITED}})
        shown = service.call("GET", "/v1/articles/https://example.org/a%3Fb=1").json["articles"][0]
    finally:
        source.start = start
    assert (answer.json["verdict"], answer.json["a"]["text"], answer.json["a"]["sums"]) == ("duplicate", None, None)
    assert (shown["text"], shown["text_missing"]) == (None, "the source topic has no such record any more")


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_withdrawn_article_is_explained_as_withdrawn(tmp_path: Path, is_gone: bool) -> None:
    """Whether its text is still in the source topic or not; the log has its entry after the rules."""
    made = MemoryService(tmp_path)
    made.begin_log()
    entry = log_position(LogOffset(made.log_articles([json.dumps({"id": "a", "text": STORY}).encode()])), 0)
    at = made.append(Withdrawal((entry,)))
    source = {"topic_id": str(UUID(bytes=made.topic_id)), "partition": 0, "offset": 0, "topic": TOPIC}
    with made.serve():
        made.cluster.partition(Partition(TOPIC, 0)).start = int(is_gone)
        answer = made.call("POST", "/v1/explain", {"a": {"source": source}, "b": {"text": STORY}}).json
    assert (answer["verdict"], answer["a"]["withdrawn_at"]) == ("unique", at)
    assert answer["a"]["text"] == (None if is_gone else STORY)
    assert f"was withdrawn at log offset {at}" in answer["reason"]


def test_a_later_version_is_explained_as_an_update(tmp_path: Path) -> None:
    """Of a logged article and of a given one with its id; articles without an id are no versions of each other."""
    made = MemoryService(tmp_path, match={"recrawl": "update"})
    made.begin_log()
    made.log_articles([json.dumps({"id": "a", "text": STORY}).encode()])
    source = {"topic_id": str(UUID(bytes=made.topic_id)), "partition": 0, "offset": 0, "topic": TOPIC}
    own, unnamed = {"id": "a", "text": STORY}, {"text": STORY}
    with made.serve():
        said = [
            made.call("POST", "/v1/explain", {"a": a, "b": b}).json["verdict"]
            for a in ({"source": source}, own, unnamed)
            for b in (own, unnamed)
        ]
    assert said == ["unique", "duplicate", "unique", "duplicate", "duplicate", "duplicate"]


def test_the_text_of_a_topic_that_was_recreated_is_not_shown(service: MemoryService) -> None:
    """Its offsets denote other records now."""
    topic = service.cluster.topics[TOPIC]
    service.cluster.topics[TOPIC] = replace(topic, id=b"another-topic-id")
    try:
        shown = service.call("GET", "/v1/articles/c").json["articles"][0]
    finally:
        service.cluster.topics[TOPIC] = topic
    assert (shown["text"], shown["text_missing"]) == (None, "topic articles does not exist, or was recreated")


@pytest.mark.parametrize(
    ("a", "status"),
    [
        ({}, 422),
        (
            {
                "text": STORY,
                "source": {"topic_id": "00000000-0000-0000-0000-000000000000", "partition": 0, "offset": 0},
            },
            422,
        ),
        ({"id": "nobody"}, 404),
        ({"source": {"topic_id": "00000000-0000-0000-0000-000000000000", "partition": 0, "offset": 0}}, 404),
        ({"source": {"topic_id": "no id", "partition": 0, "offset": 0}}, 422),
        ({"source": {"topic_id": "00000000-0000-0000-0000-000000000000", "partition": -1, "offset": 0}}, 422),
        ({"text": " "}, 422),
        ({"text": 7}, 422),
        ({"text": "a" * 100_001}, 422),
    ],
)
def test_what_cannot_be_explained_is_refused(service: MemoryService, a: dict[str, Any], status: int) -> None:
    """Nothing, two things, unknown articles, unreadable texts, and texts that are too long."""
    answer = service.call("POST", "/v1/explain", {"a": a, "b": {"text": STORY}})
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    errors = answer.json.get("errors", [])
    assert bool(errors) is (status == 422)
    assert all(one["pointer"].startswith("#/a") for one in errors)


MEMBERS = st.sampled_from(
    ["a", "b", "text", "fields", "id", "scope", "articles", "top", "source", "topic_id", "offset"]
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(MEMBERS | st.text(st.characters(), max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


def resolved(pointer: str, document: Any) -> Any:  # noqa: ANN401 - JSON values
    """The value of a JSON pointer, written as a fragment (RFC 6901, 6)."""
    assert pointer[0] == "#"
    for part in unquote(pointer[1:], errors="strict").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        document = document[int(name) if isinstance(document, list) else name]
    return document


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/check", "/v1/explain"])
def test_every_pointer_leads_to_a_value_of_the_request(service: MemoryService, path: str) -> None:
    """Whatever JSON is sent."""
    with Client(service.port) as client:

        @examples(1000)
        @given(DOCUMENTS)
        def ask(document: Any) -> None:  # noqa: ANN401 - JSON values
            answer = client.call("POST", path, document)
            assert answer.status in {200, 404, 422}
            for error in answer.json.get("errors", []):
                resolved(error["pointer"], document)
                assert error["detail"]

        ask()


PATHS = [
    *("/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/v1/articles/b", "/v1/articles/nobody", "/v1/clusters"),
    *("/v1/clusters?limit=0", "/v1/clusters/nothing", "/v1/verdicts", "/v1/check", "/nothing"),
    *("/", "/check", "/clusters", "/assets/pages.css", "/assets/nothing", "/preferences"),
]


@pytest.mark.parametrize("path", PATHS)
def test_head_is_answered_as_get_without_the_body(service: MemoryService, path: str) -> None:
    """Status and headers are the same, the length included; what a page shows may have changed meanwhile."""
    with Client(service.port) as client:
        got, head = client.call("GET", path), client.call("HEAD", path)
        assert client.call("GET", "/healthz").status == 200  # on the same connection
    assert (head.status, head.body) == (got.status, b"")
    assert 0.8 < int(head.headers["content-length"]) / max(1, len(got.body)) < 1.25 or not got.body
    varying = {"date": "", "content-length": ""}
    assert {**head.headers, **varying} == {**got.headers, **varying}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/healthz", "GET, HEAD"),
        ("/v1/openapi.json", "GET, HEAD"),
        ("/v1/check", "POST"),
        ("/check", "GET, HEAD, POST"),
        ("/preferences", "POST"),
    ],
)
def test_another_method_is_answered_with_those_of_the_resource(service: MemoryService, path: str, allowed: str) -> None:
    """Of all its routes, not of the first; OPTIONS too."""
    answers = [service.call(method, path) for method in ("DELETE", "OPTIONS")]
    assert [(one.status, one.headers["allow"]) for one in answers] == [(405, allowed)] * 2


def test_the_last_verdicts_are_shown(service: MemoryService) -> None:
    """Newest first, those of one topic in its order, with the counts of each bucket."""
    answer = service.call("GET", "/v1/verdicts?limit=6&window=hour").json
    latest = answer["latest"]
    assert sorted(one["id"] for one in latest) == sorted(name for name, _ in ARTICLES)
    assert [one["source"]["offset"] for one in latest if one["verdict"] == "duplicate"] == [3, 1]
    assert [one["id"] for one in latest if one["reason_code"] == "empty_text"] == ["empty"]
    assert service.call("GET", "/v1/verdicts?limit=2&window=hour").json["latest"] == latest[:2]
    assert sum(bucket["articles"] for bucket in answer["history"]) == len(ARTICLES)


def test_the_metrics_show_the_index_and_the_requests(service: MemoryService) -> None:
    """Articles of the index, the offset, and each request by route and status."""
    service.call("GET", "/v1/clusters")
    shown = f"stream_dedup_serve_index_entries {float(len(ARTICLES))}"
    wait_until(lambda: shown in service.call("GET", "/metrics").body.decode(), 30, "the gauge of the index")
    metrics = service.call("GET", "/metrics").body.decode()
    assert "stream_dedup_serve_log_offset 2.0" in metrics
    assert "stream_dedup_serve_log_lag 0.0" in metrics
    assert "stream_dedup_serve_up_to_date 1.0" in metrics
    assert re.search(r'stream_dedup_serve_requests_total\{route="/v1/clusters",status="200"\} [1-9]', metrics)
    assert re.search(r'stream_dedup_serve_request_seconds_count\{route="/v1/clusters"\} [1-9]', metrics)
    assert "process_cpu_seconds_total" in metrics


def test_every_route_is_described_with_its_problems(service: MemoryService) -> None:
    """The description has a summary for each, and examples for each body."""
    described = service.call("GET", "/v1/openapi.json").json
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) == 10
    assert all(one["summary"] for one in operations)
    assert operations[0]["operationId"] == "check_v1_check_post"
    (example,) = described["components"]["schemas"]["ExplainRequest"]["examples"]
    assert service.call("POST", "/v1/explain", example).status == 200


def unused() -> TopicPorts:
    raise AssertionError("the record is there already")


def test_a_text_by_its_schema() -> None:
    """It is shown; while the registry is away it cannot be, and the answer says which part was away."""
    registry = FakeRegistry()
    registry.register("a", {"schema": AVRO})
    texts = SourceTexts(registry_config(registry.url), unused)
    value = frame(1, avro_data(AVRO, {"id": 7, "text": "The ferry left at noon."}))
    record: Any = SimpleNamespace(key=None, value=value, topic="articles", partition=0, offset=3)
    registry.stop()
    away = texts._decoded(record)
    assert (away.article, away.absence) == (None, TextAbsence.NO_BROKER)
    assert "the schema registry at" in (away.reason or "")
    registry.start()
    assert texts._decoded(record).text == "The ferry left at noon."
    registry.stop()
    texts.close()
