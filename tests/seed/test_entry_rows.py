"""Log entries as Arrow batches: the same entries come back, and rows that are none are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_dedup.core.columns import Columns, encode_columns
from stream_dedup.core.model import Status, Widths
from stream_dedup.errors import UserError
from stream_dedup.seed.entry_rows import ROWS_SCHEMA, batch_of, columns_of
from tests.logs import Entry, entries_batch, scheme_of

WIDTHS = Widths(8, 16)
SCHEME = scheme_of(*WIDTHS)
BIG = (1 << 64) - 3
"""A scope hash with its highest bit set."""


def columns() -> Columns:
    entries = [
        Entry(1 << 255 | 5, "0123456789abcdef", BIG, Status.SHORT, "编号 1", b"\1\xff"),
        Entry(0, status=Status.REJECTED, id="\ud83d half"),
        Entry(0, status=Status.FEATURELESS, id=""),
    ]
    return Columns.concat([entries_batch([0, 1, BIG >> 1], entries, *WIDTHS)])


def changed(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.RecordBatch:
    """A batch of three entries with other values in one column."""
    batch = batch_of(columns(), SCHEME.id)
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, name, pa.array(values, kind or ROWS_SCHEMA.field(name).type))


def _not_utf8() -> pa.RecordBatch:
    """A batch whose writer said of other bytes that they are text."""
    batch = batch_of(columns(), SCHEME.id)
    ends, joined = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff\xfe")
    return batch.set_column(batch.schema.get_field_index("id"), "id", pa.StringArray.from_buffers(3, ends, joined))


def test_entries_come_back() -> None:
    """Entries of every kind are the same bytes after the way through Arrow."""
    batch = batch_of(columns(), SCHEME.id)
    assert batch.schema == ROWS_SCHEMA
    assert encode_columns(columns_of(batch, SCHEME)) == encode_columns(columns())


def test_a_part_of_a_batch_comes_back() -> None:
    """Rows cut out of a batch, as readers of Parquet do, are those entries."""
    batch = batch_of(columns(), SCHEME.id).slice(1, 2)
    assert encode_columns(columns_of(batch, SCHEME)) == encode_columns(columns().rows(slice(1, 3)))


def test_no_entries() -> None:
    """A batch without rows has no entries, of the scheme's number of tables."""
    found = columns_of(batch_of(Columns.blank(0, WIDTHS), SCHEME.id), SCHEME)
    assert (len(found), found.widths) == (0, WIDTHS)


def test_unsigned_numbers_keep_their_bits() -> None:
    """A number above the greatest signed one is stored as the signed number of the same bits."""
    scope_hash = batch_of(columns(), SCHEME.id).column("scope_hash").to_pylist()[0]
    assert np.int64(scope_hash).view(np.uint64) == BIG


def test_columns_may_stand_in_any_order_beside_others() -> None:
    """Columns are found by their names."""
    batch = batch_of(columns(), SCHEME.id).append_column("order", pa.array([1, 2, 3]))
    turned = batch.select(batch.schema.names[::-1])
    assert encode_columns(columns_of(turned, SCHEME)) == encode_columns(columns())


def test_another_scheme_is_refused_in_three_lines() -> None:
    """Entries of another scheme are refused; the message has both schemes and the remedy, each on a line."""
    with pytest.raises(UserError) as caught:
        columns_of(batch_of(columns(), scheme_of(4).id), SCHEME)
    lines = str(caught.value).splitlines()
    assert [scheme_of(4).id in lines[0], SCHEME.id in lines[1], "again" in lines[2], len(lines)] == [
        True,
        True,
        True,
        3,
    ]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (batch_of(columns(), SCHEME.id).drop_columns("reason"), "column reason is missing"),
        (changed("id", ["a", None, "b"]), "column id has a null"),
        (changed("scope_hash", ["a", "b", "c"], pa.string()), "column scope_hash is string"),
        (changed("status", [0, 2, 6]), "column status has 6, which is no status"),
        (changed("status", [0, 2, -1]), "column status has -1, which is no status"),
        (changed("signature", [bytes(32), bytes(31), bytes(32)]), "column signature has values of 31, 32 bytes"),
        (changed("id", ["a", "b", "é" * 257]), "column id has a value of 514 bytes, at most 512 are allowed"),
        (changed("reason", ["a", "b" * 3_000, ""]), "column reason has a value of 3000 bytes, at most 2048"),
        (changed("format", [1, 1, 2]), "the entries have format 2, and this program reads format 1: write the file by"),
        (batch_of(columns(), SCHEME.id).drop_columns("format"), "column format is missing"),
        (_not_utf8(), "column id has a value that is not UTF-8"),
        (changed("margins", [bytes(32)] * 3), "column margins has values of 32 bytes, expected 64"),
        (changed("sketch", [bytes(8)] * 3), "column sketch has values of 8 bytes, expected 16"),
        (batch_of(columns(), SCHEME.id).drop_columns("sketch"), "column sketch is missing"),
    ],
)
def test_rows_that_are_no_entries_are_refused(batch: pa.RecordBatch, reason: str) -> None:
    """A missing column, a null, another type and a value out of range are refused, with the column and the remedy."""
    with pytest.raises(UserError, match=re.escape(reason)) as caught:
        columns_of(batch, SCHEME)
    assert "stream_dedup.spark.fingerprint" in str(caught.value)
