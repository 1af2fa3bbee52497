"""Decoders of Avro and Protobuf schemas. Their packages, of the extra ``[registry]``, are loaded here.

fastavro's compiled reader follows data without a limit on their depth, and its arrays without one on their length. So
data of a schema that contains itself are read by its reader in Python, which has the limit of Python's own stack; and
arrays whose elements take no bytes are refused: a few bytes would be an array without end.

A registry has the text of a ``.proto`` file; grpcio-tools is its compiler. Data begin with the path of their message in
that file: the number of steps, then the index of a message of the file, of a message in that message, and so on, as
zigzag varints; a zero alone stands for the first message.

A message becomes an object with the names of the file. A field that says whether it is set is missing where it is not;
any other has its value, as the programs see it that read the message. Enums are their names.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from stream_dedup.errors import UnavailableError, reason_of
from stream_dedup.registry.client import Reference, SchemaProblemError

Decode = Callable[[bytes], object]
"""The value that bytes are; raises any exception where they do not fit the schema."""


def avro_decoder(text: str, references: Sequence[Reference]) -> Decode:
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
        raise SchemaProblemError("not a valid Avro schema") from error
    if walk.has_endless_arrays:
        raise SchemaProblemError("arrays of elements that take no bytes")
    read = _read_py.schemaless_reader if walk.is_recursive else fastavro.schemaless_reader

    def decode(data: bytes) -> object:
        stream = BytesIO(data)
        value: object = read(stream, schema, None)
        if stream.tell() != len(data):
            raise ValueError("bytes are left")
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


MAX_PATH_STEPS = 32
"""Messages within messages; the compiler allows no more."""
MAX_VARINT_BYTES = 5
_MAIN = "stream_dedup_schema.proto"
_NO_NAMES = {errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
"""What the system says of a name that is no file's, is too long, or is a file's here and a folder's there."""
_compiling = threading.Lock()
"""The compiler is made for one call at a time."""
_WRAPPERS = {
    f"google.protobuf.{kind}Value" for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool")
}
_WRAPPERS |= {"google.protobuf.StringValue", "google.protobuf.BytesValue"}
_TIMES = {"google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask"}
_STRUCTS = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}


def protobuf_decoder(text: str, references: Sequence[Reference]) -> Decode:
    """Return what decodes the data of a schema.

    Raises:
        SchemaProblemError: it cannot be used.
        UnavailableError: it cannot be compiled in the temporary folder; this says nothing of the schema.
    """
    from google.protobuf import message_factory  # noqa: PLC0415 - an extra

    file = _compiled(text, references)

    def decode(data: bytes) -> object:
        path, begin = message_path(data)
        messages, found = list(file.message_types_by_name.values()), None
        for step in path:
            found = messages[step]
            messages = found.nested_types
        message = message_factory.GetMessageClass(found)()
        message.ParseFromString(data[begin:])
        return _plain(message)

    return decode


def message_path(data: bytes) -> tuple[list[int], int]:
    """Return the path of a message, and where its data begin; ValueError where there is no path."""
    count, at = _varint(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= MAX_PATH_STEPS:
        raise ValueError("no path of a message")
    path = []
    for _ in range(count):
        step, at = _varint(data, at)
        if step < 0:
            raise ValueError("no path of a message")
        path.append(step)
    return path, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint, and where it ends."""
    number = 0
    for shift, byte in enumerate(data[at : at + MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:  # noqa: PLR2004 - the high bit says that another byte follows
            return (number >> 1) ^ -(number & 1), at + shift + 1
    raise ValueError("no varint")


def _compiled(text: str, references: Sequence[Reference]) -> Any:  # noqa: ANN401 - protobuf is an extra
    """Return the descriptor of a file."""
    from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: PLC0415 - an extra

    try:
        with TemporaryDirectory() as folder, _compiling:
            for name, content in [(_MAIN, text), *references]:
                _write(f"{folder}/files", PurePosixPath(name), content)
            made = _descriptors(f"{folder}/files", f"{folder}/descriptors")
    except (OSError, UnicodeEncodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise UnavailableError(
            f"temporary folder: no Protobuf schema can be compiled in it ({reason}); make room, or set TMPDIR to "
            "another folder"
        ) from error
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(made).file:
        pool.Add(file)
    return pool.FindFileByName(_MAIN)


def _descriptors(folder: str, target: str) -> bytes:
    """Compile the files in a folder by way of a target beside it; OSError where these are what cannot be used."""
    from grpc_tools import protoc  # noqa: PLC0415 - an extra

    if os.pathsep in folder:
        raise OSError(f"{folder}: the compiler takes {os.pathsep} for the end of a name")
    known = resources.files("grpc_tools") / "_proto"
    command = ["protoc", f"-I{folder}", f"-I{known}", "--include_imports", _MAIN]
    if protoc.main([*command, f"--descriptor_set_out={target}"]) == 0:
        return Path(target).read_bytes()
    # Its answer does not say what failed: a schema that is valid where nothing is written is a valid one.
    if protoc.main([*command, f"--descriptor_set_out={os.devnull}"]) == 0:
        raise OSError(f"{target}: what was compiled cannot be written")
    raise SchemaProblemError("not a valid file of Protobuf")


def _write(folder: str, path: PurePosixPath, content: str) -> None:
    """Write a file of a schema; SchemaProblemError where its name or its text is that of no file."""
    if path.is_absolute() or ".." in path.parts:
        raise SchemaProblemError("an import outside of its folder")
    target = Path(folder, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")
    except ValueError as error:
        raise SchemaProblemError("a name or a text that is not UTF-8 or has a zero in it") from error
    except OSError as error:
        if error.errno not in _NO_NAMES:
            raise
        raise SchemaProblemError("an import that cannot be the name of a file beside the others") from error


def _plain(message: Any) -> object:  # noqa: ANN401 - as above
    """Return what a message holds, as values that JSON has."""
    kind = message.DESCRIPTOR.full_name
    if kind in _TIMES:
        return message.ToJsonString()
    if kind in _WRAPPERS:
        return message.value
    if kind in _STRUCTS:
        from google.protobuf import json_format  # noqa: PLC0415 - an extra

        return json_format.MessageToDict(message)
    fields = message.DESCRIPTOR.fields
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in fields
        if not field.has_presence or message.HasField(field.name)
    }


def _field(field: Any, value: Any) -> object:  # noqa: ANN401 - as above
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        return {key: _one(of, value[key]) for key in value}
    if field.is_repeated:
        return [_one(field, one) for one in value]
    return _one(field, value)


def _one(field: Any, value: Any) -> object:  # noqa: ANN401 - as above
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
