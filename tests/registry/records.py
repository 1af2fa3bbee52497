"""Schemas of articles, and values in the wire format."""

from __future__ import annotations

import json
import struct
import urllib.request
from io import BytesIO
from typing import Any

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Article",
        "namespace": "news",
        "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
    }
)
AVRO_EVOLVED = json.dumps(
    {
        "type": "record",
        "name": "Article",
        "namespace": "news",
        "fields": [
            {"name": "site", "type": ["null", "string"], "default": None},
            {"name": "id", "type": "long"},
            {"name": "text", "type": "string"},
        ],
    }
)
PROTOBUF = """syntax = "proto3";
package news;
message Source { string name = 1; }
message Article { int64 id = 1; string text = 2; Source source = 3; }
"""


def frame(schema_id: int, data: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + data


def avro_data(schema: str, value: Any) -> bytes:  # noqa: ANN401 - whatever the schema has
    import fastavro  # noqa: PLC0415 - of an extra, which benchmarks.alerts looks for when it starts

    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return stream.getvalue()


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number, or what is delimited by its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def article_message(number: int, text: str) -> bytes:
    """An ``Article`` of ``PROTOBUF``, with its path: the second message of the file."""
    return b"\x02\x02" + field(1, number) + field(2, text.encode())


def registry_config(url: str, fmt: str = "avro", **keys: Any) -> Config:  # noqa: ANN401 - keys of the section
    values = {
        "input": {"format": fmt},
        "registry": {"url": url, **keys},
        "kafka": {"broker_wait_s": 1},
    }
    return load_config(None, values, {})


def register(
    url: str, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
) -> int:
    """Register a schema, as serializers do; return its id."""
    body: dict[str, Any] = {"schema": schema, "schemaType": kind, "references": references or []}
    request = urllib.request.Request(  # noqa: S310 - of this machine
        f"{url}/subjects/{subject}/versions",
        json.dumps(body).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        return int(json.load(answer)["id"])
