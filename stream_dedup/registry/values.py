"""A value in the wire format of a schema registry, as the JSON object that the rest of the program reads.

    byte 0        0
    4 bytes       id of the schema, big-endian
    the data      Avro: binary; Protobuf: the path of the message, then binary (``decoders``); JSON Schema: JSON

Data are decoded by the schema that they were written with, which never changes under its id. So what a value becomes
depends on the value and the registered schema alone. JSON names its fields itself: no schema is asked for.

The key of a record is read in the same way where the id is in a field of the key. Elsewhere a key is an id as it is,
and one that begins with the id of a schema is that of no article: it deletes none.

A value is rejected with a reason of its own where it does not begin in this way, where its schema cannot be used or is
of another type, and where the data do not fit it. ``MemoryError`` is no reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import orjson

from stream_dedup.config.model import Config
from stream_dedup.core import reasons
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import Article, InputFormat, RawRecord, Rejection, decode, key_id
from stream_dedup.core.fingerprinter import EntryMaker, checksum
from stream_dedup.core.model import Status
from stream_dedup.core.paths import parse_path, with_value
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.extras import need_packages
from stream_dedup.json_values import json_of
from stream_dedup.registry.client import RegistryAwayError, RegistryClient, SchemaProblemError, UnknownSchemaError
from stream_dedup.registry.decoders import Decode, avro_decoder, protobuf_decoder

MAGIC: Final = b"\0"
FRAME_BYTES: Final = 5
AVRO_FILE: Final = b"Obj\x01"
"""What an Avro file begins with; its records have no wire format."""
LOAD_RETRY_S = 0.5
"""Seconds between two requests to a registry that does not answer."""
_JSON = "json-schema"
_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
"""Types of schemas, as registries name them."""
_PACKAGES = {"avro": ("fastavro",), "protobuf": ("grpc_tools",)}
_NO_LIMIT = 1 << 40
"""Bytes of decoded values: the value itself is within ``input.max_bytes``."""


def schema_id_of(value: bytes | None) -> int | None:
    """Return the id of the schema that a value names, None of none."""
    if value is None or len(value) < FRAME_BYTES or value[:1] != MAGIC:
        return None
    return int.from_bytes(value[1:FRAME_BYTES], "big")


def schema_ids_of(value: bytes | None, key: bytes | None) -> list[int]:
    """Return the ids of the schemas that a record needs; its key is None where it is not read."""
    return [schema_id for schema_id in map(schema_id_of, (value, key)) if schema_id is not None]


def other_format(value: bytes | None, fmt: str) -> str | None:
    """Return what a value is by its first bytes, where that is another format than the configured one; else None."""
    if value is None:
        return None
    if value.startswith(AVRO_FILE):
        return "an Avro file, which is no record: write each record with the serializer of a schema registry"
    if fmt == "json" and schema_id_of(value) is not None:
        return "written by a serializer of a schema registry: set input.format to avro, protobuf or json-schema"
    if fmt in {*_KINDS, _JSON} and value.lstrip()[:1] == b"{":
        return "JSON without the id of a schema: set input.format to json"
    return None


def is_framed(config: Config) -> bool:
    """Whether values are in the wire format of a registry."""
    return config.input.format in {*_KINDS, _JSON}


def asks_registry(config: Config) -> bool:
    """Whether the schema of a value is needed to read it."""
    return config.input.format in _KINDS


class Schemas:
    """Decoders by the ids of their schemas; a schema that is there is not asked for again. Any thread.

    All that were asked for are kept: as many as records name, and a registry has some thousands at most.
    """

    def __init__(self, config: Config, wait_s: float | None = None) -> None:
        """Ask for nothing yet; ``wait_for`` waits so long, by default for ``broker_wait_s``.

        Raises:
            UserError: a package of the extra is missing, or the file of certificates cannot be used.
        """
        fmt = config.input.format
        need_packages(f"input.format = {fmt!r}", "registry", *_PACKAGES[fmt])
        self._fmt = fmt
        self._make = avro_decoder if fmt == "avro" else protobuf_decoder
        self._client = RegistryClient(config.registry)
        self._wait_s = config.kafka.broker_wait_s if wait_s is None else wait_s
        self._decoders: dict[int, Decode | str] = {}

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self._decoders

    def load(self, schema_id: int) -> Decode | str:
        """Return the decoder of a schema, or the reason why it cannot be used.

        Raises:
            UnknownSchemaError: as ``RegistryClient.schema``.
            RegistryAwayError: as there.
            UserError: as there.
            UnavailableError: the temporary folder cannot be used.
        """
        found = self._decoders.get(schema_id)
        if found is not None:
            return found
        return self._decoders.setdefault(schema_id, self._decoder(schema_id))

    def wait_for(self, schema_id: int) -> Decode | str | None:
        """Do as ``load``, again while the registry does not answer; return None where it does not know the id.

        Raises:
            UnavailableError: the registry did not answer in that time, or as ``load``.
            UserError: as ``load``.
        """
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                return self.load(schema_id)
            except UnknownSchemaError:
                return None
            except RegistryAwayError as error:
                if time.monotonic() >= deadline:
                    raise UnavailableError(f"{error}; is it up?") from error
            time.sleep(LOAD_RETRY_S)

    def _decoder(self, schema_id: int) -> Decode | str:
        try:
            schema = self._client.schema(schema_id)
            if schema.kind != _KINDS[self._fmt]:
                return reasons.OTHER_SCHEMA.format(id=schema_id, kind=_word(schema.kind), format=self._fmt)
            return self._make(schema.text, schema.references)
        except SchemaProblemError as error:
            return reasons.UNUSABLE_SCHEMA.format(id=schema_id, problem=error)


class RecordReader:
    """Reads records of a topic by the configuration, whatever their format. Any thread."""

    def __init__(
        self, config: Config, fmt: InputFormat, schemas: Schemas | None = None, *, refuses_unknown: bool = False
    ) -> None:
        """Make ``schemas`` where they are needed and not given; raises as ``Schemas``."""
        self.format = fmt
        self._is_framed = is_framed(config)
        if self._is_framed:
            self.format = replace(fmt, max_bytes=_NO_LIMIT)
        self._max_bytes = fmt.max_bytes
        self._schemas = Schemas(config) if schemas is None and asks_registry(config) else schemas
        self._refuses_unknown = refuses_unknown

    def decode(self, record: RawRecord) -> Article | Rejection:
        """Decode one record; raises as ``value``."""
        if not self._is_framed:
            return decode(record, self.format)
        record = self._with_key(record)
        value = self.value(record.value)
        if isinstance(value, str):
            return Rejection(key_id(record, self.format), value)
        made = decode(record._replace(value=value), self.format)
        if isinstance(made, Rejection) and made.reason == reasons.DELETE and self._deletes_none(record, made.id):
            return Rejection(made.id, reasons.DELETE_WITHOUT_KEY_FIELD)
        return made

    def entries(self, maker: EntryMaker) -> Callable[[Sequence[RawRecord]], Columns]:
        """Return what makes log entries of records; raises as ``value``. ``maker`` has ``format``."""
        return partial(self._made, maker) if self._is_framed else maker

    def value(self, value: bytes | None) -> bytes | str | None:
        """Return a value in the wire format as JSON, or the reason why it cannot be read; None of a tombstone.

        Raises:
            UserError: it refuses unknown schemas, and the registry does not know this one. And as ``Schemas.wait_for``.
        """
        if value is None:
            return None
        if len(value) > self._max_bytes:
            return reasons.TOO_LONG.format(size=len(value), limit=self._max_bytes)
        schema_id = schema_id_of(value)
        if schema_id is None:
            return reasons.NO_SCHEMA_ID
        data = value[FRAME_BYTES:]
        return data if self._schemas is None else self._decoded(self._schemas, schema_id, data)

    def _decoded(self, schemas: Schemas, schema_id: int, data: bytes) -> bytes | str:
        decoder = schemas.wait_for(schema_id)
        if decoder is None and self._refuses_unknown:
            raise UserError(
                f"the schema registry does not know schema {schema_id}: register it, then start the command again"
            )
        if decoder is None:
            return reasons.UNKNOWN_SCHEMA.format(id=schema_id)
        if isinstance(decoder, str):
            return decoder
        try:
            return json_of(decoder(data))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - the libraries raise whatever the data lead them to
            return reasons.NOT_OF_SCHEMA.format(id=schema_id)

    def _made(self, maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        """Return the log entries of framed records."""
        records = [self._with_key(record) for record in records]
        read = [self.value(record.value) for record in records]
        unread = {row: value for row, value in enumerate(read) if isinstance(value, str)}
        columns = maker(
            [
                # Rejected as no JSON, then for its own reason; a record without a value may be a delete.
                record._replace(value=b"" if isinstance(value, str) else value)
                for record, value in zip(records, read, strict=True)
            ]
        )
        for row in np.flatnonzero(columns.statuses == Status.DELETE).tolist():
            if self._deletes_none(records[row], columns.ids[row]):
                unread[row] = reasons.DELETE_WITHOUT_KEY_FIELD
        checksums = np.array([checksum(record.value) for record in records], np.uint64)
        return replace(columns.rejected(unread), checksums=checksums)

    def _with_key(self, record: RawRecord) -> RawRecord:
        """Return a record with its key as JSON, without a key that cannot be read; a key of one value is the field."""
        path = self.format.key_field
        if path is None or schema_id_of(record.key) is None:
            return record
        key = self.value(record.key)
        if not isinstance(key, bytes):
            return record._replace(key=None)
        if not key.lstrip().startswith(b"{"):
            key = json_of(with_value(None, parse_path(path, one=True).steps, orjson.Fragment(key)))
        return record._replace(key=key)

    def _deletes_none(self, record: RawRecord, deleted: str) -> bool:
        """Return whether a delete has its id from a key that names a schema, and is not read by it."""
        is_of_key = self.format.key_field is None and schema_id_of(record.key) is not None
        return is_of_key and deleted == key_id(record, self.format)


def _word(kind: str) -> str:
    return {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}.get(kind, "another type")
