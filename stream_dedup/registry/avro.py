"""Decoders of Avro schemas. fastavro, of the extra ``[registry]``, is loaded here.

fastavro's compiled reader follows data without a limit on their depth, and its arrays without one on their length. So
data of a schema that contains itself are read by its reader in Python, which has the limit of Python's own stack; and
arrays whose elements take no bytes are refused: a few bytes would be an array without end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

from stream_dedup.registry.client import Reference

Decode = Callable[[bytes], object]
"""The value that bytes are; raises any exception where they do not fit the schema."""


class SchemaProblemError(Exception):
    """A schema that cannot be used; the message says why, in a few words."""


def decoder_of(text: str, references: Sequence[Reference]) -> Decode:
    """Return what decodes the data of a schema.

    Raises:
        SchemaProblemError: it cannot be used.
    """
    import fastavro  # noqa: PLC0415 - an extra
    from fastavro import _read_py  # noqa: PLC0415 - the reader in Python has no public name

    named: dict[str, Any] = {}
    walk = _Walk()
    try:
        for reference in references:
            walk.holds_nothing(fastavro.parse_schema(json.loads(reference.text), named))
        schema = fastavro.parse_schema(json.loads(text), named)
        walk.holds_nothing(schema)
    except MemoryError:
        raise
    except Exception as error:
        msg = "not a valid Avro schema"
        raise SchemaProblemError(msg) from error
    if walk.has_endless_arrays:
        msg = "arrays of elements that take no bytes"
        raise SchemaProblemError(msg)
    read = _read_py.schemaless_reader if walk.is_recursive else fastavro.schemaless_reader

    def decode(data: bytes) -> object:
        stream = BytesIO(data)
        value: object = read(stream, schema, None)
        if stream.tell() != len(data):
            msg = "bytes are left"
            raise ValueError(msg)
        return value

    return decode


class _Walk:
    """Goes through schemas as fastavro has parsed them: every name is whole, and is defined before it is used."""

    def __init__(self) -> None:
        self.is_recursive = False
        self.has_endless_arrays = False
        self._known: dict[str, bool] = {}
        """Whether data of a named type take no bytes."""
        self._open: set[str] = set()

    def holds_nothing(self, schema: Any) -> bool:  # noqa: ANN401 - a schema is JSON
        """Return whether data of a schema may take no bytes."""
        if isinstance(schema, list):
            for branch in schema:
                self.holds_nothing(branch)
            return False
        if isinstance(schema, str):
            self.is_recursive |= schema in self._open
            return schema == "null" or self._known.get(schema, False)
        kind = schema["type"]
        if kind in {"record", "error"}:
            name = schema["name"]
            self._open.add(name)
            fields = [self.holds_nothing(field["type"]) for field in schema["fields"]]
            self._open.discard(name)
            self._known[name] = all(fields)
            return self._known[name]
        if kind == "fixed":
            self._known[schema["name"]] = schema["size"] == 0
            return self._known[schema["name"]]
        if kind == "array":
            self.has_endless_arrays |= self.holds_nothing(schema["items"])
        elif kind == "map":
            self.holds_nothing(schema["values"])
        elif isinstance(kind, (dict, list)):
            return self.holds_nothing(kind)
        return bool(kind == "null")
