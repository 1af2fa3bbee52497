"""Reads the batches of many log records at once, compiled. Importing this file loads the compiler.

``entry`` and ``columns`` own the bytes and define what they mean; this file reads the plain form alone: format 4, of
columns that this release knows, without damage. Whatever else a value is, it is only noted as not plain.

Numbers are int64 and bytes uint8: mixed with other whole numbers, they would become floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, from_dtype, int64, uint8, void

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.batch_places import (
    COLUMN_KINDS,
    ENTRIES_AT,
    HEAD_BYTES,
    IDS,
    KIND_AT,
    NAME_BYTES_AT,
    OFFSETS,
    PARTITION_AT,
    PLACE,
    READ_TO_AT,
    REASONS,
    STATUSES,
)
from stream_dedup.core.columns import LAST_STATUS
from stream_dedup.core.entry import KIND_BATCH, KIND_SEEDED, NOT_READ, WITH_COLUMNS
from stream_dedup.core.kernel import compiled, inlined, read, whole, written
from stream_dedup.core.model import MAX_ROWS

_PLACE = from_dtype(PLACE)
_BYTE = 8
_ENTRY = 3
"""Bytes of a column in the table of columns: its kind, and two of its width."""
_MOST_PARTITION = (1 << 31) - 1
_NOT_ASCII = np.uint8(0x80)

Places = Any
"""Records of the type ``PLACE``."""


@inlined
def _number(raw: U8, at: int, size: int) -> int:
    """Return the little-endian number of so many bytes."""
    value = whole(0)
    for byte in range(size):
        value |= whole(raw[at + byte]) << whole(_BYTE * byte)
    return value


@inlined
def _is_allowed(allowed: I64, kind: int, width: int) -> bool:
    found = False
    for at in range(allowed.shape[1]):
        found |= allowed[kind, at] == width
    return found


@inlined
def _are_rising(raw: U8, at: int, entries: int) -> bool:
    """Whether offsets strictly rise; those of a column that is not there (``at`` below 0) are all zero."""
    if at < 0:
        return entries == 1
    rising = True
    for row in range(1, entries):
        rising &= _number(raw, at + _BYTE * row, 8) > _number(raw, at + _BYTE * (row - 1), 8)
    return rising


@inlined
def _are_known(raw: U8, at: int, entries: int) -> bool:
    """Whether there is no greater status than the last one."""
    known = True
    if at >= 0:
        for row in range(entries):
            known &= whole(raw[at + row]) <= LAST_STATUS
    return known


@inlined
def _text_bytes(raw: U8, at: int, entries: int, end: int) -> int:
    """Return the bytes of the texts behind their ends; -1 where one ends before it begins, or after ``end``."""
    before = whole(0)
    falling = False
    for row in range(entries):
        after = _number(raw, at + 4 * row, 4)
        falling |= after < before
        before = after
    return whole(-1) if falling or at + 4 * entries + before > end else before


@inlined
def _are_ascii(raw: U8, at: int, size: int) -> bool:
    every = np.uint8(0)
    for byte in range(size):
        every |= raw[at + byte]
    return bool(every < _NOT_ASCII)


@compiled(boolean, read(uint8), int64, int64, read(int64, 2), read(int64), written(_PLACE), int64, makes_arrays=False)
def _note(raw: U8, start: int, end: int, allowed: I64, widths: I64, places: Places, number: int) -> bool:  # noqa: C901, PLR0911, PLR0912, PLR0913, PLR0917 - one check after the other; compiled
    """Note where the columns of a batch are; return whether it is plain."""
    found = places[number]
    at = start + HEAD_BYTES
    if end < at or raw[start] != WITH_COLUMNS:
        return False
    kind = whole(raw[start + KIND_AT])
    if kind != KIND_BATCH and kind != KIND_SEEDED:  # noqa: PLR1714 - compiled
        return False
    found.read_to = _number(raw, start + READ_TO_AT, 8)
    found.partition = _number(raw, start + PARTITION_AT, 4)
    entries = _number(raw, start + ENTRIES_AT, 4)
    found.name_bytes = _number(raw, start + NAME_BYTES_AT, 2)
    if found.read_to < NOT_READ or (found.read_to == NOT_READ and kind == KIND_SEEDED):
        return False
    if found.partition > _MOST_PARTITION or entries < 1 or entries > MAX_ROWS or at + found.name_bytes + 1 > end:
        return False
    at += found.name_bytes
    table, columns = at + 1, whole(raw[at])
    at = table + _ENTRY * columns
    if at > end:
        return False
    found.is_ascii = 1
    for kind in range(COLUMN_KINDS):
        found.at[kind] = -1
        found.widths[kind] = allowed[kind, 0]
    before = id_bytes = reason_bytes = whole(0)
    for column in range(columns):
        kind, width = whole(raw[table + _ENTRY * column]), _number(raw, table + _ENTRY * column + 1, 2)
        if kind <= before or kind >= COLUMN_KINDS or not _is_allowed(allowed, kind, width):
            return False
        before = kind
        found.at[kind], found.widths[kind] = at, width
        at += entries * width
        if at > end:
            return False
        if kind in (IDS, REASONS):
            size = _text_bytes(raw, found.at[kind], entries, end)
            if size < 0:
                return False
            found.is_ascii &= whole(_are_ascii(raw, at, size))
            if kind == IDS:
                id_bytes = size
            else:
                reason_bytes = size
            at += size
    for kind in range(1, COLUMN_KINDS):
        if widths[0] and found.widths[kind] != widths[kind]:
            return False
    if at != end or not _are_rising(raw, found.at[OFFSETS], entries):
        return False
    if not _are_known(raw, found.at[STATUSES], entries):
        return False
    # Last: of a value that is not plain nothing is counted.
    found.entries, found.id_bytes, found.reason_bytes = entries, id_bytes, reason_bytes
    return True


@compiled(void, read(uint8), read(int64), read(int64, 2), written(int64), written(_PLACE), makes_arrays=False)
def find_columns(raw: U8, ends: I64, allowed: I64, widths: I64, places: Places) -> None:
    """Note where the columns of each batch are; ``entries`` stays 0 of a value that is not plain.

    Args:
        raw: the values, joined.
        ends: end of each value, shape (n,).
        allowed: widths that each kind of column may have, the least one first, shape (COLUMN_KINDS, m).
        widths: zeros, shape (COLUMN_KINDS,); becomes 1, then the widths of the first plain batch, and of all.
        places: shape (n,), zeros.
    """
    start = whole(0)
    for at in range(len(ends)):
        if _note(raw, start, ends[at], allowed, widths, places, at) and not widths[0]:
            widths[0] = 1
            for kind in range(1, COLUMN_KINDS):
                widths[kind] = places[at].widths[kind]
        start = ends[at]


@inlined
def _copy(raw: U8, at: int, size: int, columns: U8, begin: int) -> None:
    for byte in range(size):
        columns[begin + byte] = raw[at + byte]


@compiled(void, read(uint8), read(_PLACE), read(int64), written(int64), written(uint8), makes_arrays=False)
def join_columns(raw: U8, places: Places, widths: I64, begins: I64, columns: U8) -> None:
    """Copy the columns of all plain batches, one behind the other; what is not there stays as it is.

    Args:
        raw: as for ``find_columns``.
        places: as ``find_columns`` left them.
        widths: the same.
        begins: where in ``columns`` each kind of column begins, then the ids and the reasons; becomes where they end.
        columns: zeros.
    """
    for at in range(len(places)):
        place = places[at]
        if place.entries:
            for kind in range(1, COLUMN_KINDS):
                size = place.entries * widths[kind]
                if place.at[kind] >= 0:
                    _copy(raw, place.at[kind], size, columns, begins[kind])
                    if kind == IDS:
                        _copy(raw, place.at[kind] + size, place.id_bytes, columns, begins[COLUMN_KINDS])
                        begins[COLUMN_KINDS] += place.id_bytes
                    elif kind == REASONS:
                        _copy(raw, place.at[kind] + size, place.reason_bytes, columns, begins[COLUMN_KINDS + 1])
                        begins[COLUMN_KINDS + 1] += place.reason_bytes
                begins[kind] += size
