"""Log entries as Arrow batches, the rows of a Parquet file: this file owns their columns.

``stream_dedup.spark.fingerprint`` writes them, and ``stream-dedup seed`` reads them:

    format      int8     1
    id          string   article id
    checksum    int64    XXH3-64 of the record's value, its 64 bits as a signed number: Spark has no unsigned ones
    status      int8     ``model.Status``
    scope_hash  int64    ``model.scope_hash_of``, in the same way
    signature   binary   32 bytes
    margins     binary   8 bytes for each table of the scheme
    sketch      binary   as many bytes as the scheme says, none of a scheme without sketches
    reason      string   why the record was rejected; empty if it was not
    scheme      string   id of the scheme

No value is null. Other columns may stand beside them and are ignored. The bytes of a signature, of margins and the
meaning of each column are those of ``columns.Columns``.

Imports pyarrow, which the extra ``[parquet]`` installs: import this module only where Arrow batches are at hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.columns import Columns, Texts
from stream_dedup.core.decode import MAX_ID_BYTES
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import SIGNATURE_BYTES, Status
from stream_dedup.errors import UserError

_FORMAT_VERSION = 1
_TYPES = {
    "format": pa.int8(),
    "id": pa.string(),
    "checksum": pa.int64(),
    "status": pa.int8(),
    "scope_hash": pa.int64(),
    "signature": pa.binary(),
    "margins": pa.binary(),
    "sketch": pa.binary(),
    "reason": pa.string(),
    "scheme": pa.string(),
}
ROWS_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])
"""Names and types of the columns, in order."""
MAX_REASON_BYTES = 2_048
"""A reason names a field of the configuration. With this limit a batch of rows fits into one log record."""
_REMEDY = "write the file by stream_dedup.spark.fingerprint"


def batch_of(columns: Columns, scheme_id: str) -> pa.RecordBatch:
    """Return log entries, made under this scheme, as an Arrow batch."""
    return pa.record_batch(
        [
            pa.array(np.full(len(columns), _FORMAT_VERSION, np.int8)),
            _strings(columns.ids),
            pa.array(columns.checksums.view(np.int64)),
            pa.array(columns.statuses.view(np.int8)),
            pa.array(columns.scope_hashes.view(np.int64)),
            _binaries(columns.signatures),
            _binaries(columns.margins),
            _binaries(columns.sketches),
            _strings(columns.reasons),
            pa.array([scheme_id] * len(columns), pa.string()),
        ],
        schema=ROWS_SCHEMA,
    )


def columns_of(batch: pa.RecordBatch, scheme: Scheme) -> Columns:
    """Return the log entries of an Arrow batch.

    Raises:
        UserError: the rows are of another format or scheme, a column is missing or of another type, or a value is null
            or none of its column.
    """
    made = {field.name: _column(batch, field) for field in ROWS_SCHEMA}
    _refuse_other_formats(made["format"])
    _refuse_other_schemes(made["scheme"], scheme)
    return Columns(
        checksums=_unsigned(made["checksum"]),
        statuses=_statuses(made["status"]),
        scope_hashes=_unsigned(made["scope_hash"]),
        signatures=_bytes(made["signature"], "signature", SIGNATURE_BYTES),
        margins=_bytes(made["margins"], "margins", scheme.widths.margin_bytes),
        sketches=_bytes(made["sketch"], "sketch", scheme.sketch_bytes),
        ids=_texts(made["id"], "id", MAX_ID_BYTES),
        reasons=_texts(made["reason"], "reason", MAX_REASON_BYTES),
    )


def _strings(texts: Texts) -> pa.Array:
    ends = np.concatenate([np.zeros(1, np.int32), texts.ends.astype(np.int32)])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(texts.joined))


def _binaries(rows: U8) -> pa.Array:
    return pa.array([row.tobytes() for row in rows], pa.binary())


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    count = batch.schema.names.count(field.name)
    if count != 1:
        raise UserError(f"column {field.name} is {'there more than once' if count else 'missing'}: {_REMEDY}")
    found = batch.column(field.name)
    if found.null_count:
        raise UserError(f"column {field.name} has a null: {_REMEDY}")
    try:
        return found.cast(field.type)
    except pa.ArrowException as error:
        raise UserError(
            f"column {field.name} is {found.type}, which cannot be read as {field.type}: {_REMEDY}"
        ) from error


def _refuse_other_formats(found: pa.Array) -> None:
    for other in pc.unique(found).to_pylist():
        if other != _FORMAT_VERSION:
            raise UserError(
                f"the entries have format {other}, and this program reads format {_FORMAT_VERSION}: {_REMEDY}"
            )


def _refuse_other_schemes(found: pa.Array, scheme: Scheme) -> None:
    for other in pc.unique(found).to_pylist():
        if other != scheme.id:
            raise UserError(
                f"the entries were made under the scheme {other}\n"
                f"the log has the scheme {scheme.id}\n"
                "fingerprint the articles again with the configuration of the log"
            )


def _unsigned(numbers: pa.Array) -> U64:
    signed: I64 = numbers.to_numpy(zero_copy_only=False)
    return signed.astype(np.int64).view(np.uint64)


def _statuses(numbers: pa.Array) -> U8:
    statuses: Any = numbers.to_numpy(zero_copy_only=False)
    unknown = statuses[(statuses < 0) | (statuses >= Status.DELETE)]
    if len(unknown):
        raise UserError(f"column status has {unknown[0]}, which is no status: {_REMEDY}")
    return np.asarray(statuses, np.uint8)


def _texts(values: pa.Array, name: str, most: int) -> Texts:
    """Return texts of at most so many bytes: an id goes into the headers of the articles that match it."""
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is not None and longest > most:
        raise UserError(f"column {name} has a value of {longest} bytes, at most {most} are allowed: {_REMEDY}")
    try:
        return Texts.of(values.to_pylist())
    except UnicodeDecodeError as error:
        raise UserError(f"column {name} has a value that is not UTF-8: {_REMEDY}") from error


def _bytes(values: pa.Array, name: str, width: int) -> U8:
    lengths = pc.unique(pc.binary_length(values)).to_pylist()
    if lengths not in ([], [width]):
        raise UserError(
            f"column {name} has values of {', '.join(map(str, sorted(lengths)))} bytes, expected {width}: {_REMEDY}"
        )
    joined = np.frombuffer(b"".join(values.to_pylist()), np.uint8)
    return joined.reshape(len(values), width)
