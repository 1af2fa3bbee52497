"""The columns of log entries: this file owns their set, and the bytes of each.

The fields of ``Columns`` are the table of columns. Encoding, decoding, slicing and concatenating are derived from
it: a new column is a new field, and a new format version in ``entry``.

Bytes of n entries, as drawn in ``entry``: the columns of numbers in the order of the fields, then where each
text of each column of texts ends, then the texts of each column. All integers are little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Final, Self

import numpy as np

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.byte_reader import ByteReader
from stream_dedup.core.model import SIGNATURE_BYTES, TABLE_COUNTS, TABLE_MARGIN_BYTES, Status
from stream_dedup.core.text_column import Texts
from stream_dedup.errors import CorruptError


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column of numbers in the log: for each entry one number, or ``width`` and ``table_width`` for each table."""

    dtype: str
    width: int = 0
    table_width: int = 0

    def shape(self, n: int, tables: int) -> tuple[int, ...]:
        """Return the shape of the column of n entries."""
        width = self.width + self.table_width * tables
        return (n, width) if width else (n,)


_STORED: Final = "stored"
_LAST_STATUS: Final = max(Status)


def stored_numbers(dtype: str, width: int = 0, *, table_width: int = 0) -> dict[str, _Numbers]:
    """Return the metadata of a field that is a column of numbers."""
    return {_STORED: _Numbers(dtype, width, table_width)}


def stored_texts() -> dict[str, type[Texts]]:
    """Return the metadata of a field that is a column of texts."""
    return {_STORED: Texts}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Columns:
    """Log entries without their coordinates, as columns of the same length.

    Each field is a column. Columns of numbers come first, then columns of texts, in the order of the log's bytes.
    """

    checksums: U64 = field(metadata=stored_numbers("<u8"))
    """xxh3-64 of each record's value; 0 of a tombstone."""
    statuses: U8 = field(metadata=stored_numbers("u1"))
    """``model.Status``."""
    groups: U64 = field(metadata=stored_numbers("<u8"))
    """``model.group_of``: entries of different groups are never near; 0 unless signed."""
    signatures: U8 = field(metadata=stored_numbers("u1", SIGNATURE_BYTES))
    """Bit 0 is the high bit of byte 0; zero unless signed."""
    margins: U8 = field(metadata=stored_numbers("u1", table_width=TABLE_MARGIN_BYTES))
    """Margins of the bits that the tables cut into blocks, 4 bits each; zero unless signed."""
    ids: Texts = field(metadata=stored_texts())
    """Article ids."""
    reasons: Texts = field(metadata=stored_texts())
    """Why the record was rejected; empty if it was not."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.statuses)

    @property
    def tables(self) -> int:
        """Number of block tables of the scheme, which the width of the margins tells."""
        return int(self.margins.shape[1]) // TABLE_MARGIN_BYTES

    def rows(self, rows: slice | I64) -> Self:
        """Return the entries of these rows."""
        return replace(self, **{name: _rows_of(getattr(self, name), rows) for name in names_of(type(self))})

    def rejected(self, reasons: Mapping[int, str]) -> Self:
        """Return these entries with some rows rejected: their checksums and ids stay, all else is blank."""
        rows = list(reasons)
        blank = Columns.blank(len(rows), self.tables)
        changed: dict[str, Any] = {"reasons": self.reasons.changed(reasons)}
        for name in _numbers().keys() - {"checksums"}:
            changed[name] = getattr(self, name).copy()
            changed[name][rows] = getattr(blank, name)
        return replace(self, **changed)

    @classmethod
    def of(cls, **columns: Any) -> Columns:  # noqa: ANN401 - a sequence of numbers or texts for each field
        """Make columns from one sequence of numbers or texts for each field."""
        made: dict[str, Any] = {name: np.asarray(columns[name], one.dtype) for name, one in _numbers().items()}
        made |= {name: Texts.of(columns[name]) for name in _texts()}
        return Columns(**made)

    @classmethod
    def blank(cls, n: int, tables: int) -> Columns:
        """Return n rejected entries without checksum, id and reason, under a scheme of this many tables."""
        made: dict[str, Any] = {name: np.zeros(one.shape(n, tables), one.dtype) for name, one in _numbers().items()}
        made["statuses"].fill(Status.REJECTED)
        made |= {name: Texts.of([""] * n) for name in _texts()}
        return Columns(**made)

    @classmethod
    def concat(cls, parts: Sequence[Columns]) -> Columns:
        """Return the entries of all parts, in order; no entries if there are no parts."""
        parts = parts or [cls.blank(0, TABLE_COUNTS[0])]
        made: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _numbers()}
        made |= {name: Texts.concat([getattr(part, name) for part in parts]) for name in _texts()}
        return Columns(**made)


def encode_columns(columns: Columns) -> list[bytes]:
    """Return the bytes of the columns, in the order of the log."""
    numbers = [getattr(columns, name).astype(one.dtype, copy=False).tobytes() for name, one in _numbers().items()]
    texts = [getattr(columns, name) for name in _texts()]
    ends = [column.ends.astype("<u4", copy=False).tobytes() for column in texts]
    return [*numbers, *ends, *(column.joined for column in texts)]


def decode_columns(reader: ByteReader, n: int, tables: int) -> Columns:
    """Read the columns of n entries under a scheme of this many tables.

    Raises:
        CorruptError: the bytes are cut short or damaged.
    """
    made: dict[str, Any] = {name: reader.column(one.dtype, one.shape(n, tables)) for name, one in _numbers().items()}
    ends = {name: reader.column("<u4", (n,)) for name in _texts()}
    made |= {name: Texts(of_name, reader.take(int(of_name[-1]))) for name, of_name in ends.items()}
    for name in _texts():
        made[name].check(name)
    if made["statuses"].max() > _LAST_STATUS:
        msg = f"log batch with an entry of unknown status {made['statuses'].max()}"
        raise CorruptError(msg)
    return Columns(**made)


def names_of(kind: type[Columns]) -> tuple[str, ...]:
    """Return the names of the columns, including those that a subclass adds."""
    return tuple(one.name for one in fields(kind) if _STORED in one.metadata)


@cache
def _numbers() -> dict[str, _Numbers]:
    return {one.name: one.metadata[_STORED] for one in fields(Columns) if one.metadata[_STORED] is not Texts}


@cache
def _texts() -> tuple[str, ...]:
    return tuple(one.name for one in fields(Columns) if one.metadata[_STORED] is Texts)


def _rows_of(column: Any, rows: slice | I64) -> Any:  # noqa: ANN401 - an array or texts
    return column.rows(rows) if isinstance(column, Texts) else column[rows]
