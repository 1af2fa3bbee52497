"""An output record is the input record, key, value and headers, with the ``dedup.*`` headers added."""

import json
from typing import Any

import pytest

from stream_dedup.config.effective import rules_of
from stream_dedup.core.headers import parse_headers
from stream_dedup.core.model import Verdict
from stream_dedup.kafka.connection import make_producer
from tests.worker.conftest import MakePipeline
from tests.worker.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TEXT = "城市地铁新线路今天上午正式开通运营，沿线居民出行时间缩短将近一半，运营方提醒乘客错峰出行并注意安全。" * 4


def judged(made: Pipeline) -> dict[int, tuple[str, Any]]:
    """Topic and record of every output, by source offset, once all have left."""
    worker = made.start()
    made.wait_joined()
    made.wait_done()
    made.stop(worker)
    return {stamp.coordinates.offset: (topic, record) for topic, record, stamp in made.outputs()}


def test_output_is_the_input_and_our_headers(make_pipeline: MakePipeline) -> None:
    """Key, value and headers are untouched; ``dedup.*`` headers that came along are replaced."""
    made = make_pipeline()
    value = json.dumps({"id": "a", "text": TEXT, "more": [1, {"x": None}]}).encode() + b"  "
    producer = make_producer(made.config().kafka)
    own = [("trace", b"\x00\xff"), ("trace", b"again")]
    producer.send(made.topic, key=b"\xffkey", value=value, headers=[*own, ("dedup.verdict", b"duplicate")])
    producer.flush(30)
    producer.close()
    topic, record = judged(made)[0]
    assert topic == made.config().topics.unique
    assert (record.key, record.value) == (b"\xffkey", value)
    assert [header for header in record.headers if not header[0].startswith("dedup.")] == own
    assert [name for name, _ in record.headers].count("dedup.verdict") == 1
    stamp = parse_headers(record.headers)
    assert stamp.verdict is Verdict.UNIQUE
    assert stamp.topic == made.topic
    assert stamp.scheme == rules_of(made.config()).scheme.id
    made.assert_sound()


def test_fields_of_an_envelope_have_paths(make_pipeline: MakePipeline) -> None:
    """Id, text and scope as a connector nests them; a whole number is one id; NaN elsewhere costs nothing."""
    paths = {"id_field": "payload.after.id", "text_field": "payload.after.body[]", "scope_field": "payload.source.db"}
    made = make_pipeline(input=paths, match={"recrawl": "update"})

    def event(article_id: str, db: str = "cms", more: str = "") -> bytes:
        after = f'{{"id": {article_id}, "body": ["{TEXT[:50]}", null, "{TEXT[50:]}"]{more}}}'
        return f'{{"schema": {{"id": 1}}, "payload": {{"after": {after}, "source": {{"db": "{db}"}}}}}}'.encode()

    values = [event("4711"), event("4711.0"), event("8", more=', "score": NaN'), event("9", db="shop"), event("[1]")]
    made.produce([(b'{"id": 1}', value) for value in values])
    found = judged(made)
    assert all(found[offset][1].value == value for offset, value in enumerate(values))
    stamps = [parse_headers(found[offset][1].headers) for offset in range(len(values))]
    assert [(one.verdict, one.match and one.match.id) for one in stamps] == [
        (Verdict.UNIQUE, None),
        (Verdict.UNIQUE, "4711"),
        (Verdict.DUPLICATE, "4711"),
        (Verdict.UNIQUE, None),
        (Verdict.REJECTED, None),
    ]
    assert stamps[4].reason == "id field payload.after.id is neither text nor a number but an array"
    made.assert_sound()


def test_ids_and_what_cannot_be_read(make_pipeline: MakePipeline) -> None:
    """The id is the id field, else the key, else the coordinates; an unreadable record leaves with the reason."""
    made = make_pipeline(input={"max_bytes": 5_000})
    values: list[tuple[bytes | None, bytes | None]] = [
        (b"key", json.dumps({"text": TEXT}).encode()),
        (None, json.dumps({"text": TEXT}).encode()),
        (None, json.dumps({"id": 7, "text": TEXT}).encode()),
        (b"k", None),
        (None, b""),
        (b"k", b"\xff\xfe"),
        (b"k", b"{broken"),
        (b"k", b'{"id": "x"}'),
        (b"k", b'{"text": " \\n"}'),
        (b"k", json.dumps({"text": TEXT * 40}).encode()),
    ]
    made.produce(values)
    found = judged(made)
    assert sorted(found) == list(range(len(values)))
    assert all(found[offset][1].value == value for offset, (_, value) in enumerate(values))
    stamps = {offset: parse_headers(record.headers) for offset, (_, record) in found.items()}
    assert [match.id for offset in (1, 2) if (match := stamps[offset].match) is not None] == ["key", "key"]
    rejected = {offset for offset, stamp in stamps.items() if stamp.verdict is Verdict.REJECTED}
    assert rejected == set(range(3, len(values)))
    reasons = {offset: stamps[offset].reason for offset in rejected}
    assert len(set(reasons.values())) == len(rejected) - 1  # the empty value and the broken one are both no JSON
    made.assert_sound()


def test_plain_text(make_pipeline: MakePipeline) -> None:
    """With ``input.format`` of text a value is the article, its key the id."""
    made = make_pipeline(input={"format": "text"})
    made.produce([(b"first", TEXT.encode()), (b"second", TEXT.encode())])
    found = judged(made)
    match = parse_headers(found[1][1].headers).match
    assert match is not None
    assert (match.id, match.distance, match.similarity) == ("first", 0, "1.0000")
    made.assert_sound()
