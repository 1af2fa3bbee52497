"""Values in the wire format: what they become, and why they are rejected."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import resource
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.load import load_config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import Article, RawRecord, Rejection
from stream_dedup.core.fingerprinter import EntryMaker, checksum
from stream_dedup.core.model import Status
from stream_dedup.core.reasons import DELETE, DELETE_WITHOUT_ID, DELETE_WITHOUT_KEY_FIELD, code_of
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.registry import client
from stream_dedup.registry.client import Reference, SchemaProblemError
from stream_dedup.registry.decoders import avro_decoder, message_path, protobuf_decoder
from stream_dedup.registry.values import RecordReader, Schemas, other_format, schema_id_of
from tests.registry.fake import FakeRegistry
from tests.registry.records import (
    AVRO,
    AVRO_EVOLVED,
    PROTOBUF,
    article_message,
    avro_data,
    field,
    frame,
    registry_config,
)

ANYTHING = {
    "type": "record",
    "name": "Anything",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "text", "type": "bytes"},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEWS", "SPORT"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    ],
}
"""A field of each type of Avro."""
NODE = json.dumps({"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]})
"""A schema that contains itself."""


@pytest.fixture
def fake() -> Any:  # noqa: ANN401 - a generator
    made = FakeRegistry()
    yield made
    made.stop()


def read(fake: FakeRegistry, value: bytes, fmt: str = "avro") -> bytes | str | None:
    config = registry_config(fake.url, fmt)
    return RecordReader(config, input_format_of(config, 10_000)).value(value)


def json_at(fake: FakeRegistry, value: bytes, fmt: str = "avro") -> Any:  # noqa: ANN401 - JSON
    made = read(fake, value, fmt)
    assert isinstance(made, bytes), made
    return orjson.loads(made)


def code(fake: FakeRegistry, value: bytes, fmt: str = "avro") -> str:
    made = read(fake, value, fmt)
    assert isinstance(made, str), made
    return code_of(made)


def test_every_type_of_avro(fake: FakeRegistry) -> None:
    """Each becomes what a Parquet column of its kind becomes."""
    fake.register("a", {"schema": json.dumps(ANYTHING)})
    noon = dt.datetime(2026, 11, 27, 12, 0, 0, 123000, dt.UTC)
    value = {
        "n": None,
        "b": True,
        "i": -5,
        "l": 2**63 - 1,
        "f": float("inf"),
        "d": 0.5,
        "text": "Fähre".encode(),
        "raw": b"\xff\x00",
        "kind": "SPORT",
        "mark": b"ab",
        "list": ["a", None],
        "map": {"x": 1},
        "price": decimal.Decimal("12345678901234567890.10"),
        "uuid": uuid.UUID(int=7),
        "date": dt.date(2026, 11, 27),
        "time": dt.time(9, 30),
        "ms": noon,
        "us": noon,
        "local": noon.replace(tzinfo=None),
    }
    made = read(fake, frame(1, avro_data(json.dumps(ANYTHING), value)))
    assert isinstance(made, bytes)
    assert b'"price":12345678901234567890.10,' in made
    assert orjson.loads(made) == {
        "n": None,
        "b": True,
        "i": -5,
        "l": 2**63 - 1,
        "f": None,
        "d": 0.5,
        "text": "Fähre",
        "raw": {"base64": "/wA="},
        "kind": "SPORT",
        "mark": "ab",
        "list": ["a", None],
        "map": {"x": 1},
        "price": 12345678901234567890.10,
        "uuid": "00000000-0000-0000-0000-000000000007",
        "date": "2026-11-27",
        "time": "09:30:00",
        "ms": "2026-11-27T12:00:00.123000+00:00",
        "us": "2026-11-27T12:00:00.123000+00:00",
        "local": "2026-11-27T12:00:00.123000",
    }


def test_an_evolved_schema_has_another_id(fake: FakeRegistry) -> None:
    """Each value is read by the schema that it was written with; a schema is asked for once."""
    fake.register("a", {"schema": AVRO})
    fake.register("a", {"schema": AVRO_EVOLVED})
    config = registry_config(fake.url)
    reader = RecordReader(config, input_format_of(config))
    old = frame(1, avro_data(AVRO, {"id": 1, "text": "one"}))
    new = frame(2, avro_data(AVRO_EVOLVED, {"site": "bbc", "id": 2, "text": "two"}))
    for _ in range(2):
        found = [reader.decode(RawRecord(None, value, "t-0-0")) for value in (old, new)]
        assert found == [Article("1", ("one",)), Article("2", ("two",))]
    assert fake.asked == ["/schemas/ids/1", "/schemas/ids/2"]


def test_a_schema_of_avro_that_refers_to_others(fake: FakeRegistry) -> None:
    """A type is found by its full name."""
    site = {"type": "record", "name": "Site", "namespace": "news", "fields": [{"name": "name", "type": "string"}]}
    article = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "site", "type": "news.Site"}, {"name": "t", "type": "string"}],
    }
    fake.register("site", {"schema": json.dumps(site)})
    reference = {"name": "news.Site", "subject": "site", "version": 1}
    fake.register("a", {"schema": json.dumps(article), "references": [reference]})
    assert json_at(fake, frame(2, b"\x06bbc\x04hi")) == {"site": {"name": "bbc"}, "t": "hi"}


def test_the_messages_of_protobuf(fake: FakeRegistry) -> None:
    """Nested ones, maps, enums, oneofs and the types that Protobuf brings; by the path in front."""
    proto = """syntax = "proto3";
    import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
    import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto";
    message Outer {
      message Inner { message Deep { string text = 1; } }
    }
    enum Kind { NONE = 0; NEWS = 1; }
    message All {
      int64 id = 1; optional string title = 2; repeated string tags = 3; map<int32, string> names = 4;
      Kind kind = 5; bytes raw = 6; google.protobuf.Timestamp time = 7; google.protobuf.StringValue wrapped = 8;
      google.protobuf.Struct free = 9; google.protobuf.Duration length = 10; double ratio = 11;
      Outer.Inner.Deep deep = 12; uint64 big = 13; bool flag = 14;
      oneof body { string text = 15; string html = 16; }
    }
    """
    fake.register("p", {"schema": proto, "schemaType": "PROTOBUF"})
    deep = frame(1, b"\x06\0\0\0" + field(1, b"x"))
    assert json_at(fake, deep, "protobuf") == {"text": "x"}
    data = b"\x02\x02" + b"".join(
        [
            field(1, 2**63 - 1),
            field(3, b"a"),
            field(3, b"b"),
            field(4, field(1, 7) + field(2, b"seven")),
            field(5, 1),
            field(6, b"\xff"),
            field(7, field(1, 1_700_000_000)),
            field(8, field(1, b"w")),
            field(9, field(1, field(1, b"k") + field(2, field(3, b"v")))),
            field(10, field(1, 90)),
            field(12, field(1, b"d")),
            field(13, 2**64 - 1),
            field(16, b"<p>"),
            field(99, b"of a later version"),
        ]
    )
    assert json_at(fake, frame(1, data), "protobuf") == {
        "id": 2**63 - 1,
        "tags": ["a", "b"],
        "names": {"7": "seven"},
        "kind": "NEWS",
        "raw": {"base64": "/w=="},
        "time": "2023-11-14T22:13:20Z",
        "wrapped": "w",
        "free": {"k": "v"},
        "length": "90s",
        "ratio": 0.0,
        "deep": {"text": "d"},
        "big": 2**64 - 1,
        "flag": False,
        "html": "<p>",
    }
    assert json_at(fake, frame(1, b"\x02\x02" + field(5, 9)), "protobuf")["kind"] == 9


@pytest.mark.parametrize(
    ("data", "path"),
    [(b"\0rest", [0]), (b"\x02\x02rest", [1]), (b"\x04\0\x04rest", [0, 2]), (b"\x02\x80\x02rest", [128])],
)
def test_the_path_of_a_message(data: bytes, path: list[int]) -> None:
    """Zigzag varints; a zero alone is the first message."""
    found, begin = message_path(data)
    assert (found, data[begin:]) == (path, b"rest")


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x80", b"\xff" * 9, b"\x02\x01", b"\xfe\x01" + b"\0" * 127, b"\x04\0"]
)
def test_what_is_no_path(data: bytes) -> None:
    """Too short, negative, or too long."""
    with pytest.raises(ValueError, match=r"path|varint"):
        message_path(data)


def test_why_a_value_is_rejected(fake: FakeRegistry) -> None:
    """Each reason has a code of its own; no schema id, another type, a broken schema, data that do not fit."""
    fake.register("a", {"schema": AVRO})
    fake.register("p", {"schema": PROTOBUF, "schemaType": "PROTOBUF"})
    fake.register("broken", {"schema": '{"type": "record"}'})
    fake.register("broken", {"schema": "message {", "schemaType": "PROTOBUF"})
    good = avro_data(AVRO, {"id": 1, "text": "one"})
    assert [code(fake, value) for value in (b"", b"\0\0\0\0", b"\x01\0\0\0\x01" + good, b'{"id": 1}')] == [
        "no_schema_id"
    ] * 4
    assert code(fake, frame(1, good[:-1])) == "not_of_schema"
    assert code(fake, frame(1, good + b"x")) == "not_of_schema"
    assert code(fake, frame(1, b"\x02\x02\xff")) == "not_of_schema"
    assert code(fake, frame(2, good)) == "unusable_schema"
    assert code(fake, frame(3, good)) == "unusable_schema"
    assert code(fake, frame(9, good)) == "unknown_schema"
    assert code(fake, frame(1, b"\0" * 10_000)) == "too_large"
    assert code(fake, frame(1, b"\0"), "protobuf") == "unusable_schema"
    assert code(fake, frame(4, b"\0"), "protobuf") == "unusable_schema"
    assert code(fake, frame(2, b"\x08\0"), "protobuf") == "not_of_schema"
    assert code(fake, frame(2, b"\x02\x02\x0a\xff"), "protobuf") == "not_of_schema"


def test_a_schema_that_refers_to_too_many_is_unusable(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It will never refer to fewer: its records are rejected, and do not wait."""
    monkeypatch.setattr(client, "MAX_REFERENCES", 1)
    references = [{"name": name, "subject": "a", "version": 1} for name in "ab"]
    fake.register("a", {"schema": AVRO})
    fake.register("b", {"schema": AVRO, "references": references})
    assert code(fake, frame(2, b"")) == "unusable_schema"


def test_an_entry_has_the_checksum_of_its_value(fake: FakeRegistry) -> None:
    """Not that of what it was decoded to: it is compared with the source. A rejected one has the key as id."""
    fake.register("a", {"schema": AVRO})
    values = [frame(1, avro_data(AVRO, {"id": 5, "text": "The ferry left at noon."})), frame(1, b"\xff"), None]
    config = registry_config(fake.url)
    reader = RecordReader(config, input_format_of(config))
    make = reader.entries(EntryMaker(fingerprint_settings_of(config), reader.format))
    made = make([RawRecord(b"key", value, "t-0-0") for value in values])
    assert made.checksums.tolist() == [checksum(value) for value in values]
    assert list(made.ids) == ["5", "key", "key"]
    assert [status == Status.REJECTED for status in made.statuses] == [False, True, True]
    assert [code_of(reason) for reason in list(made.reasons)[1:]] == ["not_of_schema", "no_value"]


def test_a_delete_is_a_record_without_a_value_or_one_whose_value_says_so(fake: FakeRegistry) -> None:
    """A value that cannot be read is none, whether or not its record has a key."""
    names = ("id", "op", "text")
    schema = {"type": "record", "name": "Change", "fields": [{"name": name, "type": "string"} for name in names]}
    fake.register("a", {"schema": json.dumps(schema)})
    data = avro_data(json.dumps(schema), {"id": "5", "op": "d", "text": "The ferry left at noon."})
    values = {"input": {"format": "avro", "deletes": "withdraw", "delete_field": "op"}, "registry": {"url": fake.url}}
    config = load_config(None, values, {})
    reader = RecordReader(config, input_format_of(config, deletes=True))
    make = reader.entries(EntryMaker(fingerprint_settings_of(config), reader.format))
    given = [(b"key", None), (b"key", frame(1, data)), (b"key", frame(1, b"\xff")), (None, frame(1, b"\xff"))]
    made = make([RawRecord(key, value, "t-0-0") for key, value in given])
    assert [Status(status) for status in made.statuses] == [Status.DELETE] * 2 + [Status.REJECTED] * 2
    assert list(made.ids)[:3] == ["key", "5", "key"]
    assert [code_of(reason) for reason in list(made.reasons)[2:]] == ["not_of_schema"] * 2


KEYED = {
    "name": "Key",
    "type": "record",
    "fields": [{"name": "at", "type": {"type": "record", "name": "At", "fields": [{"name": "id", "type": "double"}]}}],
}


@pytest.mark.parametrize("fmt", ["avro", "json-schema"])
@pytest.mark.parametrize(
    ("key", "avro_of", "key_field", "expected"),
    [
        ({"at": {"id": 4711.0}}, KEYED, "at.id", "4711"),
        (4711, "long", "at.id", "4711"),
        ("k", "string", "at.id", "k"),
        ({"at": {"id": 4711.0}}, KEYED, "id", None),
        ({"at": {"id": 4711.0}}, KEYED, None, "schema"),
        ("k", "string", None, "schema"),
    ],
)
def test_the_key_of_a_delete_is_read_by_its_schema(
    fake: FakeRegistry, fmt: str, key: object, avro_of: object, key_field: str | None, expected: str | None
) -> None:
    """Where a field of keys has the id. Elsewhere it is no id, and the reason says so."""
    schema = json.dumps(avro_of)
    data = avro_data(schema, key) if fmt == "avro" else json.dumps(key).encode()
    raw = RawRecord(frame(fake.register("a-key", {"schema": schema}), data), None, "t-0-0")
    reader, make = keyed_reader(fake, fmt, key_field)
    made, columns = reader.decode(raw), make([raw, RawRecord(b"4711.0", None, "t")])
    assert isinstance(made, Rejection)
    if expected is None:
        assert made == Rejection("t-0-0", DELETE_WITHOUT_ID)
    elif expected == "schema":
        assert made.reason == DELETE_WITHOUT_KEY_FIELD
        assert code_of(made.reason) == "delete_without_id"
    else:
        assert made == Rejection(expected, DELETE)
    assert columns.ids[0] == made.id
    assert bool(columns.statuses[0] == Status.DELETE) is (made.reason == DELETE)
    assert columns.reasons[0] == ("" if made.reason == DELETE else made.reason)
    assert bool(columns.statuses[1] == Status.DELETE) is (key_field is None)


def keyed_reader(
    fake: FakeRegistry, fmt: str, key_field: str | None
) -> tuple[RecordReader, Callable[[list[RawRecord]], Columns]]:
    values = {
        "input": {"format": fmt, "deletes": "withdraw", "delete_field": "op", "key_field": key_field},
        "registry": {"url": fake.url},
    }
    config = load_config(None, values, {})
    reader = RecordReader(config, input_format_of(config, deletes=True))
    return reader, reader.entries(EntryMaker(fingerprint_settings_of(config), reader.format))


def test_keys_beside_deletes(fake: FakeRegistry) -> None:
    """A key that names a schema is the id of an article, as it is or by its field; an operation has no other one."""
    key = frame(7, b'"k"')
    article, gone = (frame(7, json.dumps({"text": "t", "op": op}).encode()) for op in ("c", "d"))
    reader, make = keyed_reader(fake, "json-schema", None)
    records = [RawRecord(key, value, "t-0-0") for value in (article, gone)]
    whole = key.decode()
    assert [reader.decode(one) for one in records] == [
        Article(whole, ("t",)),
        Rejection(whole, DELETE_WITHOUT_KEY_FIELD),
    ]
    assert list(make(records).reasons) == ["", DELETE_WITHOUT_KEY_FIELD]
    reader, make = keyed_reader(fake, "json-schema", "id")
    assert [reader.decode(one) for one in records] == [Article("k", ("t",)), Rejection("k", DELETE)]
    assert list(make(records).ids) == ["k", "k"]
    assert reader.decode(RawRecord(frame(7, b"{"), article, "t-0-0")) == Article("t-0-0", ("t",))


def test_a_limit_counts_the_bytes_of_the_value(fake: FakeRegistry) -> None:
    """What it was decoded to may be longer."""
    fake.register("a", {"schema": AVRO})
    value = frame(1, avro_data(AVRO, {"id": 5, "text": "\u0001" * 900}))
    config = registry_config(fake.url).model_copy(
        update={"input": load_config(None, {"input": {"max_bytes": 1000}}, {}).input}
    )
    config = config.model_copy(update={"input": config.input.model_copy(update={"format": "avro"})})
    reader = RecordReader(config, input_format_of(config))
    assert isinstance(reader.decode(RawRecord(None, value, "t-0-0")), Article)
    assert isinstance(reader.decode(RawRecord(None, value + b"x" * 100, "t-0-0")), Rejection)


def test_json_schema_needs_no_registry() -> None:
    """The frame is taken off, and nobody is asked."""
    config = load_config(None, {"input": {"format": "json-schema"}}, {})
    reader = RecordReader(config, input_format_of(config))
    assert reader.decode(RawRecord(None, frame(1, b'{"id": 1, "text": "one"}'), "x")) == Article("1", ("one",))
    found = reader.decode(RawRecord(None, b'{"id": 1, "text": "one"}', "x"))
    assert isinstance(found, Rejection)
    assert code_of(found.reason) == "no_schema_id"


@pytest.mark.parametrize("deep", [100, 5_000, 900_000])
def test_data_as_deep_as_somebody_likes(deep: int) -> None:
    """A schema that contains itself: the data are read, or do not fit; the process lives."""
    decode = avro_decoder(NODE, ())
    found: list[object] = []

    def work() -> None:
        try:
            found.append(decode(b"\x02" * deep + b"\0"))
        except RecursionError:
            found.append(None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (found[0] is None) == (deep > 100)


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "record", "name": "Nulls", "fields": [{"name": "a", "type": "null"}]},
        {"type": "fixed", "name": "Nothing", "size": 0},
    ],
)
def test_arrays_without_end_are_refused(items: object) -> None:
    """Some bytes would be an array of as many elements as somebody likes."""
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]}
    with pytest.raises(SchemaProblemError, match="take no bytes"):
        avro_decoder(json.dumps(schema), ())


def test_imports_stay_in_their_folder() -> None:
    """A reference names no file outside of it."""
    for name in ("../x.proto", "/tmp/x.proto", "a/../../x.proto"):
        with pytest.raises(SchemaProblemError, match="outside"):
            protobuf_decoder(PROTOBUF, [Reference(name, PROTOBUF)])


@pytest.mark.parametrize("names", [[""], ["a" * 300], ["a\0b"], ["\ud800"], ["a", "a/b"], ["a/b", "a"], ["a", "a/b/c"]])
def test_an_import_that_can_be_no_file_is_a_problem_of_the_schema(names: list[str]) -> None:
    """Its name is too long, no text of a file system, or that of a file here and of a folder there."""
    with pytest.raises(SchemaProblemError):
        protobuf_decoder(PROTOBUF, [Reference(name, PROTOBUF) for name in names])


def test_a_schema_that_is_not_utf8_is_a_problem_of_the_schema() -> None:
    """JSON can have half a character."""
    with pytest.raises(SchemaProblemError, match="not UTF-8"):
        protobuf_decoder(PROTOBUF + "// \ud800", [])


@pytest.mark.parametrize("fault", ["full", "a:b", "gone", "\udcff"])
def test_a_temporary_folder_that_cannot_be_used_is_no_problem_of_the_schema(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The message names what to set; the schema is there when the folder is."""
    fake.register("p", {"schema": PROTOBUF + 'import "google/protobuf/descriptor.proto";', "schemaType": "PROTOBUF"})
    made = Schemas(registry_config(fake.url, "protobuf"))
    if fault != "gone":
        (tmp_path / fault).mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path / fault))
        try:
            if fault == "full":
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            with pytest.raises(UnavailableError, match=r"temporary folder: .* set TMPDIR"):
                made.load(1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert callable(made.load(1))


def test_no_import_is_in_the_way_of_the_compiler() -> None:
    """Its output has a folder of its own."""
    assert callable(protobuf_decoder(PROTOBUF, [Reference("descriptors/x.proto", 'syntax = "proto3";')]))


AVRO_DECODE = avro_decoder(json.dumps(ANYTHING), ())
PROTOBUF_DECODE = protobuf_decoder(PROTOBUF, ())


@given(st.binary(max_size=200), st.sampled_from(["avro", "protobuf"]))
def test_any_bytes_have_a_result(data: bytes, fmt: str) -> None:
    """A value or an ordinary exception, which is a reason; and the same one each time."""
    decode: Callable[[bytes], object] = AVRO_DECODE if fmt == "avro" else PROTOBUF_DECODE

    def result() -> str:
        try:
            return repr(decode(data))
        except Exception as error:  # noqa: BLE001 - as the reader
            return type(error).__name__

    assert result() == result()


def test_changed_bytes_of_a_good_value(fake: FakeRegistry) -> None:
    """No bit that flips on the way makes the reader raise."""
    fake.register("a", {"schema": json.dumps(ANYTHING)})
    fake.register("p", {"schema": PROTOBUF, "schemaType": "PROTOBUF"})
    drawn = random.Random(11)
    config = registry_config(fake.url, "protobuf")
    reader = RecordReader(config, input_format_of(config, 10_000))
    good = article_message(77, "The ferry left at noon.")
    for _ in range(500):
        data = bytearray(good)
        data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
        assert isinstance(reader.value(frame(2, bytes(data))), bytes | str)


@pytest.mark.parametrize(
    ("value", "fmt", "said"),
    [
        (frame(17, b"x"), "json", "input.format to avro"),
        (b"Obj\x01\x04", "json", "an Avro file"),
        (b"Obj\x01\x04", "avro", "an Avro file"),
        (b' {"id": 1}', "avro", "set input.format to json"),
        (b'{"id": 1}', "json-schema", "set input.format to json"),
        (b'{"id": 1}', "json", None),
        (frame(17, b"x"), "avro", None),
        (frame(17, b"x"), "text", None),
        (b"\0\0\0\0", "json", None),
        (None, "json", None),
    ],
)
def test_values_of_another_format(value: bytes | None, fmt: str, said: str | None) -> None:
    """By their first bytes; what says nothing is nothing."""
    found = other_format(value, fmt)
    assert (found is None) if said is None else (found is not None and said in found)


def test_the_id_of_a_schema() -> None:
    """Four bytes, big-endian, without a sign, behind a zero."""
    assert schema_id_of(b"\0\xff\xff\xff\xff") == 2**32 - 1
    assert schema_id_of(frame(17, b"")) == 17
    assert [schema_id_of(value) for value in (None, b"", b"\0\0\0\0", b"\x01\0\0\0\x11")] == [None] * 4


def test_an_unknown_schema_is_refused_where_a_command_asks_for_it(fake: FakeRegistry) -> None:
    """As ``seed`` does, which may log no rejection of a record that a schema makes readable."""
    config = registry_config(fake.url)
    reader = RecordReader(config, input_format_of(config), refuses_unknown=True)
    with pytest.raises(UserError, match="does not know schema 3"):
        reader.decode(RawRecord(None, frame(3, b""), "x"))


def test_a_registry_that_is_away_is_waited_for(fake: FakeRegistry) -> None:
    """For ``broker_wait_s``; then the command ends, and nothing is rejected."""
    fake.stop()
    config = registry_config(fake.url)
    reader = RecordReader(config, input_format_of(config))
    with pytest.raises(UnavailableError, match=r"registry at http://127.0.0.1:\d+/api does not answer"):
        reader.decode(RawRecord(None, frame(1, b""), "x"))
