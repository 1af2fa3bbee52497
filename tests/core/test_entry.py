"""The bytes of a log record: the drawn layout, the round trip, and the refusal of damage."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.columns import Columns, Texts
from stream_dedup.core.entry import MAX_WITHDRAWN, Basis, Batch, Forgotten, Trim, Withdrawal, decode, encode, make_batch
from stream_dedup.core.model import (
    SIGNATURE_BYTES,
    SKETCH_SIZES,
    TABLE_COUNTS,
    LogOffset,
    LogPosition,
    SourceOffset,
    Status,
    TableCount,
    log_position,
)
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError
from tests.amount import sampled
from tests.logs import SCHEME

TOPIC_ID = bytes(range(16))
BLANK: dict[str, Any] = {
    "checksums": [0],
    "statuses": [0],
    "scope_hashes": [0],
    "signatures": np.zeros((1, SIGNATURE_BYTES)),
    "margins": np.zeros((1, 32)),
    "sketches": np.zeros((1, 0)),
    "ids": [""],
    "reasons": [""],
}
"""Columns of one entry that is zero in every byte."""
ROWS = 3
NUMBERS = ("offsets", "checksums", "statuses", "scope_hashes", "signatures", "margins", "sketches")


def made(tables: int = 4, sketch_bytes: int = 0, *, offsets: Sequence[int] = (3, 5, 2**40), **changes: Any) -> Batch:  # noqa: ANN401
    """A batch of three entries; ``changes`` replace columns."""
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "checksums": draw.integers(0, 2**64, ROWS, np.uint64),
        "statuses": [Status.LONG, Status.REJECTED, Status.EXACT],
        "scope_hashes": draw.integers(0, 2**64, ROWS, np.uint64),
        "signatures": draw.integers(0, 256, (ROWS, SIGNATURE_BYTES), np.uint8),
        "margins": draw.integers(0, 256, (ROWS, 8 * tables), np.uint8),
        "sketches": draw.integers(0, 256, (ROWS, sketch_bytes), np.uint8),
        "ids": ["a", "", "第三"],
        "reasons": ["", "no text", ""],
    }
    return make_batch(Columns.of(**columns | changes), TOPIC_ID, "文章", 7, offsets)


def decoded(raw: bytes) -> Batch:
    batch = decode(raw)
    assert isinstance(batch, Batch)
    return batch


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same coordinates and the same value in every column."""
    names = [field.name for field in fields(Batch) if field.name not in {*NUMBERS, "ids", "reasons"}]
    return (
        all(getattr(one, name) == getattr(other, name) for name in names)
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in NUMBERS)
        and [[*one.ids], [*one.reasons]] == [[*other.ids], [*other.reasons]]
    )


NAME = "文章".encode()
HEAD = struct.Struct("<BBq16siIH")
TABLE_AT = HEAD.size + len(NAME)
"""Where the table of columns begins in a batch of the topic 文章."""


@pytest.mark.parametrize("read_to", [None, LogOffset(2**40 + 5)])
def test_batch_as_drawn(read_to: LogOffset | None) -> None:
    """Every field of an encoded batch is where the drawing of the format has it."""
    batch = replace(made(8), read_to=read_to)
    raw = encode(batch)
    assert raw[: HEAD.size] == HEAD.pack(6, 1, -1 if read_to is None else read_to, TOPIC_ID, 7, ROWS, len(NAME))
    assert raw[HEAD.size : TABLE_AT] == NAME
    table = struct.pack("<B" + 8 * "BH", 8, 1, 8, 2, 8, 3, 1, 4, 8, 5, 32, 6, 64, 7, 4, 8, 4)
    at = TABLE_AT + len(table)
    assert raw[TABLE_AT:at] == table
    numbers = (batch.offsets, batch.checksums, batch.statuses, batch.scope_hashes)
    assert struct.unpack_from("<3q3Q3B3Q", raw, at) == tuple(value for column in numbers for value in column.tolist())
    at += struct.calcsize("<3q3Q3B3Q")
    assert raw[at : at + 32 * ROWS] == batch.signatures.tobytes()
    at += 32 * ROWS
    assert raw[at : at + 64 * ROWS] == batch.margins.tobytes()
    at += 64 * ROWS
    assert raw[at:] == struct.pack("<3I", 1, 1, 7) + "a第三".encode() + struct.pack("<3I", 0, 7, 7) + b"no text"


def test_what_is_blank_is_left_out() -> None:
    """Columns that are zero in every byte take no room, and are read as they were; the width of margins is kept."""
    batch = made(8, scope_hashes=[0] * ROWS, reasons=[""] * ROWS, margins=np.zeros((ROWS, 64)))
    raw = encode(batch)
    kinds = raw[TABLE_AT + 1 : TABLE_AT + 1 + 3 * raw[TABLE_AT] : 3]
    assert (raw[TABLE_AT], [*kinds]) == (6, [1, 2, 3, 5, 6, 7])
    assert same(decoded(raw), batch)
    nothing = make_batch(Columns.of(**BLANK), TOPIC_ID, "文章", 7, [0])
    assert encode(nothing) == HEAD.pack(6, 1, -1, TOPIC_ID, 7, 1, len(NAME)) + NAME + b"\0"
    assert same(decoded(encode(nothing)), nothing)


@pytest.mark.parametrize("sketch_bytes", SKETCH_SIZES)
@pytest.mark.parametrize("tables", TABLE_COUNTS)
def test_batch_there_and_back(tables: TableCount, sketch_bytes: int) -> None:
    """Decoding returns every column that was encoded, for every number of tables and every size of sketches."""
    batch = made(tables, sketch_bytes)
    again = decoded(encode(batch))
    assert again.widths == (tables, sketch_bytes)
    assert same(again, batch)
    assert [(again.id(row), again.reason(row)) for row in range(ROWS)] == [("a", ""), ("", "no text"), ("第三", "")]


def test_sketches_as_drawn() -> None:
    """Sketches are the last column; blank ones keep their width."""
    batch = made(4, 16)
    raw = encode(batch)
    assert raw[TABLE_AT + 1 + 3 * 8 : TABLE_AT + 1 + 3 * 9] == struct.pack("<BH", 9, 16)
    assert raw.endswith(b"no text" + batch.sketches.tobytes())
    blank = replace(batch, sketches=np.zeros((ROWS, 16), np.uint8))
    assert same(decoded(encode(blank)), blank)


def test_fingerprints_are_the_first_word() -> None:
    """A fingerprint is the first word of the signature; its highest bit is bit 0 of the signature."""
    signatures = np.zeros((ROWS, SIGNATURE_BYTES), np.uint8)
    signatures[0, 0], signatures[1, 7], signatures[2, 8] = 0x80, 0x01, 0xFF
    assert made(signatures=signatures).fingerprints.tolist() == [1 << 63, 1, 0]


@given(st.integers(0, ROWS), st.integers(0, ROWS))
def test_rows_are_a_batch_of_their_own(start: int, stop: int) -> None:
    """A slice of a batch is encoded and decoded with the entries and texts of its rows."""
    batch = made()
    if start >= stop:
        return
    part = decoded(encode(batch.rows(slice(start, stop))))
    assert part.offsets.tolist() == batch.offsets[start:stop].tolist()
    assert part.scope_hashes.tolist() == batch.scope_hashes[start:stop].tolist()
    assert [part.id(row) for row in range(stop - start)] == [batch.id(row) for row in range(start, stop)]
    assert [part.reason(row) for row in range(stop - start)] == [batch.reason(row) for row in range(start, stop)]


FORGOTTEN = (Forgotten(TOPIC_ID, 0, SourceOffset(2**40)), Forgotten(TOPIC_ID, 7, SourceOffset(1)))
WITHDRAWAL = Withdrawal((log_position(0, 5), log_position(2**33, 0), log_position(2**33, 7)))
TRIM = Trim(LogOffset(3), -5, Basis(9, LogOffset(2**33), FORGOTTEN))


@pytest.mark.parametrize("read_to", [None, LogOffset(0), LogOffset(2**40)])
def test_a_batch_says_up_to_where_its_author_had_read(read_to: LogOffset | None) -> None:
    """Decoding returns it, None of one that does not say; encoding the decoded batch returns the same bytes."""
    raw = encode(replace(made(), read_to=read_to))
    assert decoded(raw).read_to == read_to
    assert encode(decoded(raw)) == raw


@pytest.mark.parametrize(
    "payload", [TRIM, replace(TRIM, basis=Basis(9, LogOffset(0), ())), Rules(SCHEME, window_ms=7), WITHDRAWAL]
)
def test_rules_trims_and_withdrawals_there_and_back(payload: Trim | Rules | Withdrawal) -> None:
    """Decoding returns the rules, the trim and the withdrawal that were encoded."""
    assert decode(encode(payload)) == payload


def test_a_seeded_batch_has_the_bytes_of_a_batch_and_a_kind_of_its_own() -> None:
    """Only the kind differs from a batch; decoding says that it is seeded, encoding gives the same."""
    batch = replace(made(), read_to=LogOffset(9))
    raw = encode(replace(batch, seeded=True))
    assert raw == with_byte(encode(batch), 1, 5)
    assert decoded(raw).seeded
    assert encode(decoded(raw)) == raw
    assert not decoded(encode(batch)).seeded


def test_a_seeded_batch_says_up_to_where_its_author_had_read() -> None:
    """A seeded batch without it is not encoded: no reader would take the bytes."""
    with pytest.raises(ValueError, match="up to which log offset"):
        encode(replace(made(), seeded=True))


def test_withdrawals_as_drawn() -> None:
    """Every field of an encoded withdrawal is where the drawing of the format has it."""
    assert encode(WITHDRAWAL) == struct.pack("<BBI3q", 6, 4, 3, 5, 2**53, 2**53 + 7)


def test_the_largest_withdrawal_is_read_and_a_larger_one_refused() -> None:
    """A withdrawal holds MAX_WITHDRAWN log positions and no more."""
    most = tuple(map(LogPosition, range(MAX_WITHDRAWN + 1)))
    assert decode(encode(Withdrawal(most[:-1]))) == Withdrawal(most[:-1])
    with pytest.raises(CorruptError, match="withdrawal of 65537 log positions: must be 1 to 65536"):
        decode(encode(Withdrawal(most)))


def test_trims_as_drawn() -> None:
    """Every field of an encoded trim is where the drawing of the format has it."""
    partitions = struct.pack("<16siq16siq", TOPIC_ID, 0, 2**40, TOPIC_ID, 7, 1)
    assert encode(TRIM) == struct.pack("<BBqqqqI", 6, 3, 3, -5, 9, 2**33, 2) + partitions


RAWS = {
    "a batch": encode(replace(made(4, 16), read_to=LogOffset(9))),
    "a seeded batch": encode(replace(made(16), read_to=LogOffset(9), seeded=True)),
}
BAD_BATCH = r"^log batch of \d+ bytes is cut short or damaged$"
CHANGES = (*sampled([1 << bit for bit in range(8)], 2), 0xFF)
"""Bits of a byte that are changed."""


@pytest.mark.parametrize("kind", RAWS)
def test_batch_cut_short(kind: str) -> None:
    """A record that is cut short is refused, wherever it is cut."""
    raw = RAWS[kind]
    for cut in range(len(raw)):
        with pytest.raises(CorruptError, match=r"too short|cut short"):
            decode(raw[:cut])


@pytest.mark.parametrize("kind", RAWS)
def test_every_changed_byte_is_read_or_refused(kind: str) -> None:
    """A record with a changed byte is another record or damage: nothing but ``CorruptError`` is raised."""
    raw = RAWS[kind]
    refused = 0
    for at in range(len(raw)):
        for change in CHANGES:
            try:
                decode(with_byte(raw, at, raw[at] ^ change))
            except CorruptError:
                refused += 1
    assert refused > len(CHANGES) * len(NAME)


def with_byte(raw: bytes, at: int, value: int) -> bytes:
    at %= len(raw)
    return raw[:at] + bytes([value]) + raw[at + 1 :]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (with_byte(encode(made()), 0, 5), "format 5, and this program reads format 6"),
        (with_byte(encode(made()), 0, 7), "format 7, and this program reads format 6"),
        (with_byte(encode(made()), 1, 9), "unknown kind 9"),
        (with_byte(encode(made()), 1, 5), BAD_BATCH),
        (encode(WITHDRAWAL)[:-1], "cut short"),
        (encode(WITHDRAWAL) + b"\0", "cut short or damaged"),
        (encode(Withdrawal(())), "withdrawal of 0 log positions"),
        (encode(Withdrawal(WITHDRAWAL.positions[::-1])), "log positions do not rise"),
        (encode(Withdrawal(WITHDRAWAL.positions[:1] * 2)), "log positions do not rise"),
        (encode(Withdrawal((LogPosition(-1),))), "log positions do not rise from 0"),
        (encode(TRIM)[:-1], "cut short"),
        (encode(TRIM) + b"\0", "cut short or damaged"),
        (encode(TRIM)[:-28], "log trim of 2 source partitions that has 1"),
        (encode(replace(TRIM, basis=Basis(1, LogOffset(1), FORGOTTEN[::-1]))), "partitions do not rise"),
        (encode(replace(TRIM, basis=Basis(1, LogOffset(1), FORGOTTEN[:1] * 2))), "partitions do not rise"),
        (with_byte(encode(TRIM), -8, 0), "with one of which nothing is forgotten"),
        (with_byte(encode(TRIM), 33, 0x80), "had read the log up to -"),
        (encode(replace(made(), read_to=LogOffset(-2))), BAD_BATCH),
        (encode(made()) + b"\0", BAD_BATCH),
        (encode(replace(made(), partition=-1)), BAD_BATCH),
        (
            encode(replace(TRIM, basis=Basis(1, LogOffset(1), (Forgotten(TOPIC_ID, -1, SourceOffset(1)),)))),
            "do not rise",
        ),
        (with_byte(encode(made()), 30, 0), BAD_BATCH),
        (with_byte(encode(made()), 33, 1), BAD_BATCH),
        (with_byte(encode(made()), HEAD.size, 0xFF), BAD_BATCH),
        (with_byte(encode(made()), TABLE_AT + 1 + 3 * 7, 99), BAD_BATCH),
        (with_byte(encode(made()), TABLE_AT + 1, 2), BAD_BATCH),
        (with_byte(encode(made()), TABLE_AT + 1 + 3 * 5 + 1, 40), BAD_BATCH),
        (encode(made(statuses=[0, 6, 1])), BAD_BATCH),
        (encode(made(offsets=[3, 3, 4])), BAD_BATCH),
        (encode(made(offsets=[3, 2, 4])), BAD_BATCH),
    ],
)
def test_damage_is_refused(raw: bytes, message: str) -> None:
    """Damage raises an error that says what was to be read."""
    with pytest.raises(CorruptError, match=message):
        decode(raw)


def test_texts_that_end_before_they_begin() -> None:
    """Text ends that fall are refused: an entry would get the text of another."""
    batch = made()
    batch.ids.ends[:] = [5, 1, 7]
    with pytest.raises(CorruptError, match=BAD_BATCH):
        decode(encode(batch))


def test_texts_that_are_none() -> None:
    """Ids that are not UTF-8, joined or one by one, are refused."""
    with pytest.raises(CorruptError, match=BAD_BATCH):
        decode(encode(replace(made(), ids=Texts(made().ids.ends, b"\xff" * len(made().ids.joined)))))
    batch = replace(made(), ids=Texts(np.array([3, 4, 6], np.uint32), "文章".encode()))
    with pytest.raises(CorruptError, match=BAD_BATCH):
        decode(encode(batch))
