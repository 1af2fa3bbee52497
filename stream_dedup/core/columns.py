"""The columns of log entries: this file owns their set, and the bytes of each.

``LOG_COLUMNS`` is the table of columns. Encoding, decoding, slicing and concatenating are derived from it: a new
column is a new field, with a line and a kind of its own there, and no new format.

Each column has a kind, the number that names it in a log record, and a width, the bytes of one entry:

    kind  column        width              one entry
    1     offsets       8                  int64
    2     checksums     8                  uint64
    3     statuses      1                  uint8
    4     scope_hashes  8                  uint64
    5     signatures    32                 bytes
    6     margins       8 for each table   bytes
    7     ids           4                  uint32, the end of its text
    8     reasons       4                  uint32, the end of its text
    9     sketches      0, 8, 16, 24, 32   bytes

Bytes of n entries, as the log has them:

    uint8        c, number of columns
    c times      uint8 kind, rising, and uint16 width
    c times      the column: n entries of its width, without padding; behind a column of texts its texts, joined, in
                 UTF-8, as many bytes as the end of the last one says

A column that is not there has its least width and is zero in every byte; a writer leaves such a column out. A kind
that the reader does not know is refused. All integers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np

from stream_dedup.core.arrays import I64, U8, U32, U64
from stream_dedup.core.model import (
    SIGNATURE_BYTES,
    SKETCH_SIZES,
    TABLE_COUNTS,
    TABLE_MARGIN_BYTES,
    Status,
    Widths,
)

_ENTRY: Final = struct.Struct("<BH")
"""Kind and width of a column."""


def as_stored(text: str) -> str:
    """Return the text as a column would: half surrogates, which UTF-8 cannot encode, become escapes."""
    return _encoded(text).decode()


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of texts: the texts joined in UTF-8, and the end of each."""

    ends: U32
    joined: bytes

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Make a column of these texts, each as ``as_stored`` says."""
        parts = list(map(_encoded, texts))
        return cls(np.cumsum([len(part) for part in parts], dtype=np.uint32), b"".join(parts))

    @classmethod
    def concat(cls, parts: Sequence[Texts]) -> Texts:
        """Return the texts of all parts, in order."""
        sizes = np.array([len(part.joined) for part in parts], np.uint32)
        starts = np.repeat(np.cumsum(sizes, dtype=np.uint32) - sizes, [len(part.ends) for part in parts])
        return cls(np.concatenate([part.ends for part in parts]) + starts, b"".join([part.joined for part in parts]))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.ends)

    def __getitem__(self, row: int) -> str:
        """Return the text of one row."""
        return self.joined[self._start(row) : int(self.ends[row])].decode()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the texts, in order."""
        return map(self.__getitem__, range(len(self)))

    def rows(self, rows: slice | I64) -> Texts:
        """Return the texts of these rows."""
        if not isinstance(rows, slice):
            return Texts.of([self[row] for row in rows.tolist()])
        first, after, _ = rows.indices(len(self))
        if first >= after:
            return Texts.of(())
        start, end = self._start(first), int(self.ends[after - 1])
        return Texts(self.ends[first:after] - np.uint32(start), self.joined[start:end])

    def changed(self, texts: Mapping[int, str]) -> Texts:
        """Return these texts with other texts in some rows."""
        return Texts.of([texts.get(row, text) for row, text in enumerate(self)])

    def _start(self, row: int) -> int:
        return int(self.ends[row - 1]) if row else 0


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """How the log stores a column."""

    kind: int
    dtype: str
    widths: tuple[int, ...]
    """Widths that it may have, the least one first."""
    in_rows: bool = False
    """Whether an entry is a row of numbers, and not a single number."""
    is_texts: bool = False

    @property
    def least(self) -> int:
        """The least width."""
        return self.widths[0]

    def shape(self, n: int, width: int) -> tuple[int, ...]:
        """Return the shape of the numbers of n entries."""
        return (n, width) if self.in_rows else (n,)

    def made(self, values: Any) -> Any:  # noqa: ANN401 - a sequence of numbers or texts; an array or texts
        """Return a column of these values."""
        return Texts.of(values) if self.is_texts else np.asarray(values, self.dtype)

    def blank(self, n: int, width: int | None = None) -> Any:  # noqa: ANN401 - an array or texts
        """Return n entries of zeros, by default of the least width; or n empty texts."""
        zeros = np.zeros(self.shape(n, self.least if width is None else width), self.dtype)
        return Texts(zeros, b"") if self.is_texts else zeros


LOG_COLUMNS: Final = {
    "offsets": StoredColumn(1, "<i8", (8,)),
    "checksums": StoredColumn(2, "<u8", (8,)),
    "statuses": StoredColumn(3, "u1", (1,)),
    "scope_hashes": StoredColumn(4, "<u8", (8,)),
    "signatures": StoredColumn(5, "u1", (SIGNATURE_BYTES,), in_rows=True),
    "margins": StoredColumn(6, "u1", tuple(Widths(tables).margin_bytes for tables in TABLE_COUNTS), in_rows=True),
    "ids": StoredColumn(7, "<u4", (4,), is_texts=True),
    "reasons": StoredColumn(8, "<u4", (4,), is_texts=True),
    "sketches": StoredColumn(9, "u1", SKETCH_SIZES, in_rows=True),
}
"""The columns of a log batch, by rising kind."""
COLUMNS: Final = {name: one for name, one in LOG_COLUMNS.items() if name != "offsets"}
"""Those of ``Columns``."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Columns:
    """Log entries without their coordinates, as columns of the same length; each field is a column."""

    stored: ClassVar[Mapping[str, StoredColumn]] = COLUMNS
    """How the log stores each column, by rising kind."""

    checksums: U64
    """xxh3-64 of each record's value; 0 of a tombstone."""
    statuses: U8
    """``model.Status``."""
    scope_hashes: U64
    """``model.scope_hash_of``: entries with different ones are never near; 0 unless signed."""
    signatures: U8
    """Bit 0 is the high bit of byte 0; zero unless signed."""
    margins: U8
    """Margins of the bits that the tables cut into blocks, 4 bits each; zero unless signed."""
    sketches: U8
    """Values of 4 bits, two in a byte; zero unless signed, of no width where the scheme has none."""
    ids: Texts
    """Article ids."""
    reasons: Texts
    """Why the record was rejected; empty if it was not."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.statuses)

    @property
    def widths(self) -> Widths:
        """What the scheme says about the columns, as their widths tell."""
        return Widths(self.margins.shape[1] // TABLE_MARGIN_BYTES, self.sketches.shape[1])

    def rows(self, rows: slice | I64) -> Self:
        """Return the entries of these rows."""
        return replace(self, **{name: _rows_of(getattr(self, name), rows) for name in self.stored})

    def rejected(self, reasons: Mapping[int, str]) -> Self:
        """Return these entries with some rows rejected: their checksums and ids stay, all else is blank."""
        rows = list(reasons)
        blank = Columns.blank(len(rows), self.widths)
        changed: dict[str, Any] = {"reasons": self.reasons.changed(reasons)}
        for name, one in COLUMNS.items():
            if not one.is_texts and name != "checksums":
                changed[name] = getattr(self, name).copy()
                changed[name][rows] = getattr(blank, name)
        return replace(self, **changed)

    @classmethod
    def of(cls, **columns: Any) -> Columns:  # noqa: ANN401 - a sequence of numbers or texts for each field
        """Make columns from one sequence of numbers or texts for each field."""
        return Columns(**{name: one.made(columns[name]) for name, one in COLUMNS.items()})

    @classmethod
    def blank(cls, n: int, widths: Widths) -> Columns:
        """Return n rejected entries without checksum, id and reason, under a scheme of these widths."""
        of_scheme = {"margins": widths.margin_bytes, "sketches": widths.sketch_bytes}
        made = {name: one.blank(n, of_scheme.get(name)) for name, one in COLUMNS.items()}
        made["statuses"].fill(Status.REJECTED)
        return Columns(**made)

    @classmethod
    def concat(cls, parts: Sequence[Columns]) -> Columns:
        """Return the entries of all parts, in order; no entries if there are no parts."""
        if len(parts) == 1 and type(parts[0]) is Columns:
            return parts[0]
        parts = parts or [cls.blank(0, Widths())]
        return Columns(**{name: _joined([getattr(part, name) for part in parts]) for name in COLUMNS})


def encode_columns(columns: Columns) -> list[bytes]:
    """Return the bytes of the columns."""
    table, parts = [], []
    for name, one in columns.stored.items():
        column = getattr(columns, name)
        numbers, texts = (column.ends, column.joined) if one.is_texts else (column, b"")
        width = numbers.shape[1] if one.in_rows else one.least
        if width > one.least or numbers.any():
            table.append(_ENTRY.pack(one.kind, width))
            parts += [numbers.astype(one.dtype, copy=False).tobytes(), texts]
    return [bytes([len(table)]), *table, *parts]


def _joined(columns: Sequence[Any]) -> Any:  # noqa: ANN401 - arrays or texts
    return Texts.concat(columns) if isinstance(columns[0], Texts) else np.concatenate(columns)


def _rows_of(column: Any, rows: slice | I64) -> Any:  # noqa: ANN401 - an array or texts
    return column.rows(rows) if isinstance(column, Texts) else column[rows]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
