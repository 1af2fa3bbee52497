"""Which records are deletes, and of which article: by the core and by the definition."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stream_dedup.core.fingerprint.entry_maker import EntryMaker, checksum
from stream_dedup.core.model import Status
from stream_dedup.core.reasons import DELETE, DELETE_WITHOUT_ID, TOMBSTONE, code_of
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, Rejection, decode
from tests.reference import decode as reference

PLAIN = InputFormat(deletes=True)
BY_KEY = replace(PLAIN, key_field="payload.id")
DEBEZIUM = InputFormat(
    id_field="payload.after.id",
    text_field="payload.after.text",
    key_field="id",
    deletes=True,
    delete_field="payload.op",
    delete_id_field="payload.before.id",
)
NONE = "articles-0-7"


def read(value: Any, fmt: InputFormat, key: Any = None) -> Article | Rejection:  # noqa: ANN401 - JSON, or bytes as they are
    raw = RawRecord(_bytes(key), _bytes(value), NONE)
    made = decode(raw, fmt)
    assert made == reference.decode(raw, fmt)
    return made


def _bytes(given: object) -> bytes | None:
    return given if given is None or isinstance(given, bytes) else json.dumps(given).encode()


def envelope(operation: object, before: object = None, after: object = None) -> dict[str, object]:
    return {"schema": {"type": "struct"}, "payload": {"before": before, "after": after, "op": operation, "ts_ms": 17}}


def deleted(name: str) -> Rejection:
    return Rejection(name, DELETE)


WITHOUT_ID = Rejection(NONE, DELETE_WITHOUT_ID)


@pytest.mark.parametrize(
    ("key", "fmt", "expected"),
    [
        (b"4711", PLAIN, deleted("4711")),
        (b"\xffk", PLAIN, deleted("\\xffk")),
        (b"4711.0", PLAIN, deleted("4711")),
        (b"4.711e3", PLAIN, deleted("4711")),
        (b"1.50", PLAIN, deleted("1.50")),
        (b"4711e2", PLAIN, deleted("4711e2")),
        (b" 4711.0", PLAIN, deleted(" 4711.0")),
        (b"04711.0", PLAIN, deleted("04711.0")),
        (b'"4711"', PLAIN, deleted("4711")),
        (b'"4711.0"', PLAIN, deleted("4711")),
        (b'"a\\u00e9\\ud83d"', PLAIN, deleted("aé\ud83d")),
        (b'"a" "b"', PLAIN, deleted('"a" "b"')),
        (b'"', PLAIN, deleted('"')),
        (b'""', PLAIN, WITHOUT_ID),
        (b'"' + b"k" * 510 + b'"', PLAIN, deleted("k" * 510)),
        (b'"' + b"k" * 511 + b'"', PLAIN, WITHOUT_ID),
        ({"id": 4711}, PLAIN, deleted('{"id": 4711}')),
        (None, PLAIN, WITHOUT_ID),
        (b"", PLAIN, WITHOUT_ID),
        (b"k" * 513, PLAIN, WITHOUT_ID),
        ({"payload": {"id": 4711}}, BY_KEY, deleted("4711")),
        (b'\xef\xbb\xbf{"payload": {"id": 4711.0}}', BY_KEY, deleted("4711")),
        ({"payload": {"id": "a\ud83d"}}, BY_KEY, deleted("a\ud83d")),
        ({"payload": {}}, BY_KEY, WITHOUT_ID),
        ({"payload": {"id": None}}, BY_KEY, WITHOUT_ID),
        ({"payload": {"id": ""}}, BY_KEY, WITHOUT_ID),
        ({"payload": {"id": {"a": 1}}}, BY_KEY, WITHOUT_ID),
        ({"payload": {"id": "k" * 513}}, BY_KEY, WITHOUT_ID),
        (b"4711", BY_KEY, WITHOUT_ID),
        (b'{"payload": {"id": 4711}', BY_KEY, WITHOUT_ID),
        (None, BY_KEY, WITHOUT_ID),
        (b"k", replace(PLAIN, kind="text"), deleted("k")),
        (b"k", InputFormat(), Rejection("k", TOMBSTONE)),
    ],
)
def test_a_record_without_a_value_deletes_the_article_of_its_key(
    key: object, fmt: InputFormat, expected: Rejection
) -> None:
    """The key is the id, or has it; without one the record is rejected. Where deletes are not taken, it always is."""
    assert read(None, fmt, key) == expected


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        (envelope("d", {"id": 2, "text": "a"}), {"id": 2}, deleted("2")),
        (envelope("d", {"id": 2}), None, deleted("2")),
        (envelope("d"), {"id": 3}, deleted("3")),
        (envelope("d", {"id": None}), {"id": 3}, deleted("3")),
        (envelope("d"), None, WITHOUT_ID),
        (
            envelope("d", {"id": [2]}),
            {"id": 3},
            Rejection("3", "id field payload.before.id is neither text nor a number but an array"),
        ),
        (
            envelope("d", {"id": "k" * 513}),
            {"id": 3},
            Rejection("3", "id too long: 513 bytes, the fixed limit is 512"),
        ),
        (envelope("c", None, {"id": 1, "text": "t"}), {"id": 1}, Article("1", ("t",))),
        (envelope("u", {"id": 1, "text": "s"}, {"id": 1, "text": "t"}), {"id": 1}, Article("1", ("t",))),
        (envelope("D", {"id": 2}), {"id": 2}, Rejection("2", "text field payload.after.text is missing")),
        (envelope(None, {"id": 2}), {"id": 2}, Rejection("2", "text field payload.after.text is missing")),
        (envelope(["d"], {"id": 2}), {"id": 2}, Rejection("2", "text field payload.after.text is missing")),
        ({"payload": {"after": {"text": "t"}}}, {"id": 9}, Article("9", ("t",))),
        (b'{"payload": {"op": "\\u0064", "before": {"id": 2}}}', None, deleted("2")),
        (b'{"payload": {"op": "d", "op": "c", "after": {"text": "t"}}}', {"id": 9}, Article("9", ("t",))),
        (b'{"payload": {"op": "d", "before": {"id": 2}}', {"id": 2}, Rejection("2", "invalid JSON")),
        (b"[]", {"id": 2}, Rejection("2", "JSON value is no object but an array")),
        (None, {"id": 2}, deleted("2")),
    ],
)
def test_an_envelope_says_that_it_is_a_delete(value: object, key: object, expected: Article | Rejection) -> None:
    """By its operation; its id is in the field of deletes, else in the key. Every other record is read as before."""
    assert read(value, DEBEZIUM, key) == expected


@pytest.mark.parametrize(
    ("says", "value", "is_delete"),
    [
        ("REMOVE", "REMOVE", True),
        ("REMOVE", "remove", False),
        ("true", True, True),
        ("true", "true", True),
        ("true", False, False),
        ("false", False, True),
        ("2", 2, True),
        ("2", "2", True),
        ("2", 2.0, False),
        ("null", None, False),
        ("", "", True),
        ("删除", "删除", True),
    ],
)
def test_an_operation_is_compared_as_it_is_written(says: str, value: object, is_delete: bool) -> None:
    """Text, a number, or a boolean; the id field of articles has the id where no other field is named."""
    fmt = InputFormat(deletes=True, delete_field="gone", delete_value=says)
    made = read({"id": 1, "text": "t", "gone": value}, fmt)
    assert made == (deleted("1") if is_delete else Article("1", ("t",)))
    assert read({"id": 1, "text": "t", "gone": value}, replace(fmt, deletes=False)) == Article("1", ("t",))


def test_the_key_has_the_id_of_articles_too() -> None:
    """One id for an article and for its delete, however the source names both."""
    assert read({"text": "t"}, BY_KEY, {"payload": {"id": 7}}) == Article("7", ("t",))
    assert read({"text": 1}, BY_KEY, {"payload": {"id": 7}}).id == "7"
    assert read({"text": "t"}, BY_KEY, b"7") == Article(NONE, ("t",))


def test_entries_of_deletes() -> None:
    """A status, an id and a checksum, and nothing else; one without an id is rejected with a code of its own."""
    value = json.dumps(envelope("d", {"id": 2})).encode()
    records = [RawRecord(b'{"id": 5}', None, NONE), RawRecord(None, value, NONE), RawRecord(None, None, NONE)]
    made = EntryMaker(FingerprintSettings(deletes=True), DEBEZIUM)(records)
    assert made.statuses.tolist() == [Status.DELETE, Status.DELETE, Status.REJECTED]
    assert [*made.ids] == ["5", "2", NONE]
    assert [*made.reasons] == ["", "", DELETE_WITHOUT_ID]
    assert made.checksums.tolist() == [0, checksum(value), 0]
    assert not made.signatures.any()
    assert not made.margins.any()
    assert not made.scope_hashes.any()
    assert code_of(DELETE_WITHOUT_ID) == "delete_without_id"
