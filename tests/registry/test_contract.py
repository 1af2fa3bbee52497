"""What the program relies on of a registry: the fake one and a real one keep it."""

from __future__ import annotations

import json
import uuid

import orjson
import pytest

from stream_dedup.config.effective import input_format_of
from stream_dedup.core.decode import Article, RawRecord
from stream_dedup.registry.client import RegistryClient, UnknownSchemaError
from stream_dedup.registry.values import RecordReader
from tests.registry.records import (
    AVRO,
    AVRO_EVOLVED,
    PROTOBUF,
    article_message,
    avro_data,
    frame,
    register,
    registry_config,
)

JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["fake", "real_registry"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param).url
    return found


@pytest.fixture
def client(url: str) -> RegistryClient:
    return RegistryClient(registry_config(url).registry)


@pytest.fixture
def subject() -> str:
    return f"articles-{uuid.uuid4().hex[:8]}"


def test_a_schema_has_one_id_for_ever(url: str, client: RegistryClient, subject: str) -> None:
    """Its type and its text come back, also after another version; an id that nobody registered is unknown."""
    ids = [register(url, f"{subject}-value", schema) for schema in (AVRO, AVRO_EVOLVED)]
    assert ids[0] != ids[1]
    found = [client.schema(one) for one in ids]
    assert [(one.kind, json.loads(one.text), one.references) for one in found] == [
        ("AVRO", json.loads(AVRO), ()),
        ("AVRO", json.loads(AVRO_EVOLVED), ()),
    ]
    with pytest.raises(UnknownSchemaError):
        client.schema(2_000_000_000)


def test_the_types_of_schemas(url: str, client: RegistryClient, subject: str) -> None:
    """The types are named as ``values`` expects them."""
    made = (
        register(url, f"{subject}-p", PROTOBUF, "PROTOBUF"),
        register(url, f"{subject}-j", JSON_SCHEMA, "JSON"),
    )
    assert [client.schema(one).kind for one in made] == ["PROTOBUF", "JSON"]


def test_references_come_before_what_refers_to_them(url: str, client: RegistryClient, subject: str) -> None:
    """At any depth, each once, by the names that the imports have."""
    common = 'syntax = "proto3"; package news; message Site { string name = 1; }'
    author = 'syntax = "proto3"; package news; import "common.proto"; message Author { Site site = 1; }'
    article = (
        'syntax = "proto3"; package news; import "author.proto"; import "common.proto";'
        " message Article { Author author = 1; Site site = 2; }"
    )
    to_common = {"name": "common.proto", "subject": f"{subject}-common", "version": 1}
    to_author = {"name": "author.proto", "subject": f"{subject}-author", "version": 1}
    register(url, f"{subject}-common", common, "PROTOBUF")
    register(url, f"{subject}-author", author, "PROTOBUF", [to_common])
    made = register(url, f"{subject}-value", article, "PROTOBUF", [to_author, to_common])
    found = client.schema(made)
    assert [one.name for one in found.references] == ["common.proto", "author.proto"]
    assert "message Site" in found.references[0].text
    config = registry_config(url, "protobuf")
    value = RecordReader(config, input_format_of(config)).value(frame(made, b"\0\x0a\x07\x0a\x05\x0a\x03bbc"))
    assert isinstance(value, bytes)
    assert orjson.loads(value) == {"author": {"site": {"name": "bbc"}}}


@pytest.mark.parametrize("fmt", ["avro", "protobuf"])
def test_a_value_becomes_its_article(url: str, subject: str, fmt: str) -> None:
    """Of each format, and the same article of all of them."""
    text = "Die Fähre legte mittags ab."
    if fmt == "avro":
        value = frame(register(url, f"{subject}-value", AVRO), avro_data(AVRO, {"id": 4711, "text": text}))
    else:
        value = frame(register(url, f"{subject}-value", PROTOBUF, "PROTOBUF"), article_message(4711, text))
    config = registry_config(url, fmt)
    reader = RecordReader(config, input_format_of(config))
    assert reader.decode(RawRecord(None, value, "t-0-0")) == Article("4711", (text,))
