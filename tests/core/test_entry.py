"""The bytes of a log record: the drawn layout, the round trip, and the refusal of damage."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import MAX_WITHDRAWN, Basis, Batch, Forgotten, Trim, Withdrawal, decode, encode, make_batch
from stream_dedup.core.model import (
    SIGNATURE_BYTES,
    TABLE_COUNTS,
    LogOffset,
    LogPosition,
    SourceOffset,
    Status,
    log_position,
)
from stream_dedup.core.rules import Rules, Scheme
from stream_dedup.core.text_column import Texts
from stream_dedup.errors import CorruptError

TOPIC_ID = bytes(range(16))
ROWS = 3
NUMBERS = ("offsets", "checksums", "statuses", "groups", "signatures", "margins")


def made(tables: int = 4, *, offsets: Sequence[int] = (3, 5, 2**40), **changes: Any) -> Batch:  # noqa: ANN401
    """A batch of three entries; ``changes`` replace columns."""
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "checksums": draw.integers(0, 2**64, ROWS, np.uint64),
        "statuses": [Status.LONG, Status.REJECTED, Status.EXACT],
        "groups": draw.integers(0, 2**64, ROWS, np.uint64),
        "signatures": draw.integers(0, 256, (ROWS, SIGNATURE_BYTES), np.uint8),
        "margins": draw.integers(0, 256, (ROWS, 8 * tables), np.uint8),
        "ids": ["a", "", "第三"],
        "reasons": ["", "no text", ""],
    }
    return make_batch(Columns.of(**columns | changes), TOPIC_ID, "文章", 7, offsets)


def decoded(raw: bytes) -> Batch:
    batch = decode(raw)
    assert isinstance(batch, Batch)
    return batch


@pytest.mark.parametrize("tables", TABLE_COUNTS)
def test_batch_there_and_back(tables: int) -> None:
    """Decoding returns every column that was encoded, for every number of tables."""
    batch = made(tables)
    again = decoded(encode(batch))
    assert (again.topic_id, again.topic, again.partition, again.tables) == (TOPIC_ID, "文章", 7, tables)
    assert all(np.array_equal(getattr(again, name), getattr(batch, name)) for name in NUMBERS)
    assert [(again.id(row), again.reason(row)) for row in range(ROWS)] == [("a", ""), ("", "no text"), ("第三", "")]


@pytest.mark.parametrize("read_to", [None, LogOffset(2**40 + 5)])
def test_batch_as_drawn(read_to: LogOffset | None) -> None:
    """Every field of an encoded batch is where the drawing of the format has it, in version 2 and in version 3."""
    batch = replace(made(8), read_to=read_to)
    raw = encode(batch)
    name = "文章".encode()
    head = struct.pack("<BB", 2, 1) if read_to is None else struct.pack("<BBq", 3, 1, read_to)
    head += struct.pack("<16siIBH", TOPIC_ID, 7, ROWS, 8, len(name)) + name
    at = len(head)
    assert raw[:at] == head
    assert struct.unpack_from("<3q3Q3B3Q", raw, at) == (
        *batch.offsets.tolist(),
        *batch.checksums.tolist(),
        *batch.statuses.tolist(),
        *batch.groups.tolist(),
    )
    at += struct.calcsize("<3q3Q3B3Q")
    assert raw[at : at + 32 * ROWS] == batch.signatures.tobytes()
    at += 32 * ROWS
    assert raw[at : at + 64 * ROWS] == batch.margins.tobytes()
    at += 64 * ROWS
    assert raw[at:] == struct.pack("<6I", 1, 1, 7, 0, 7, 7) + "a第三no text".encode()


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
    assert part.groups.tolist() == batch.groups[start:stop].tolist()
    assert [part.id(row) for row in range(stop - start)] == [batch.id(row) for row in range(start, stop)]
    assert [part.reason(row) for row in range(stop - start)] == [batch.reason(row) for row in range(start, stop)]


FORGOTTEN = (Forgotten(TOPIC_ID, 0, SourceOffset(2**40)), Forgotten(TOPIC_ID, 7, SourceOffset(1)))
WITHDRAWAL = Withdrawal((log_position(0, 5), log_position(2**33, 0), log_position(2**33, 7)))
TRIM = Trim(LogOffset(3), -5, Basis(9, LogOffset(2**33), FORGOTTEN))


@pytest.mark.parametrize("read_to", [None, LogOffset(0), LogOffset(2**40)])
def test_a_batch_says_up_to_where_its_author_had_read(read_to: LogOffset | None) -> None:
    """Decoding returns it, None for version 2; encoding the decoded batch returns the same bytes."""
    raw = encode(replace(made(), read_to=read_to))
    assert decoded(raw).read_to == read_to
    assert encode(decoded(raw)) == raw


@pytest.mark.parametrize(
    "payload", [Trim(LogOffset(3), -5), TRIM, Rules(Scheme("simhash", 1, "{}"), window_ms=7), WITHDRAWAL]
)
def test_rules_trims_and_withdrawals_there_and_back(payload: Trim | Rules | Withdrawal) -> None:
    """Decoding returns the rules, the trim and the withdrawal that were encoded."""
    assert decode(encode(payload)) == payload


def test_a_seeded_batch_has_the_bytes_of_a_batch_and_a_kind_of_its_own() -> None:
    """Only the kind differs from a batch of version 3; decoding says that it is seeded, encoding gives the same."""
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
    assert encode(WITHDRAWAL) == struct.pack("<BBI3q", 3, 4, 3, 5, 2**53, 2**53 + 7)


def test_the_largest_withdrawal_is_read_and_a_larger_one_refused() -> None:
    """A withdrawal holds MAX_WITHDRAWN log positions and no more."""
    most = tuple(map(LogPosition, range(MAX_WITHDRAWN + 1)))
    assert decode(encode(Withdrawal(most[:-1]))) == Withdrawal(most[:-1])
    with pytest.raises(CorruptError, match="withdrawal of 65537 log positions: must be 1 to 65536"):
        decode(encode(Withdrawal(most)))


def test_trims_as_drawn() -> None:
    """Every field of an encoded trim is where the drawing of the format has it, in version 2 and in version 3."""
    assert encode(Trim(LogOffset(3), -5)) == struct.pack("<BBqq", 2, 3, 3, -5)
    partitions = struct.pack("<16siq16siq", TOPIC_ID, 0, 2**40, TOPIC_ID, 7, 1)
    assert encode(TRIM) == struct.pack("<BBqqqqI", 3, 3, 3, -5, 9, 2**33, 2) + partitions


@pytest.mark.parametrize("cut", [1, 2, 20, 40, 100, 300, -1])
def test_batch_cut_short(cut: int) -> None:
    """A record that is cut short is refused, wherever it is cut."""
    with pytest.raises(CorruptError, match=r"too short|cut short"):
        decode(encode(made())[:cut])


def with_byte(raw: bytes, at: int, value: int) -> bytes:
    at %= len(raw)
    return raw[:at] + bytes([value]) + raw[at + 1 :]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (with_byte(encode(made()), 1, 9), "format 2 and unknown kind 9"),
        (with_byte(encode(Rules(Scheme("simhash", 1, "{}"))), 0, 3), "format 3 and unknown kind 2"),
        (with_byte(encode(made()), 1, 5), "format 2 and unknown kind 5"),
        (with_byte(encode(WITHDRAWAL), 0, 2), "format 2 and unknown kind 4"),
        (encode(WITHDRAWAL)[:-1], "cut short"),
        (encode(WITHDRAWAL) + b"\0", "1 bytes after its end"),
        (encode(Withdrawal(())), "withdrawal of 0 log positions"),
        (encode(Withdrawal(WITHDRAWAL.positions[::-1])), "log positions do not rise"),
        (encode(Withdrawal(WITHDRAWAL.positions[:1] * 2)), "log positions do not rise"),
        (encode(Withdrawal((LogPosition(-1),))), "log positions do not rise from 0"),
        (encode(Trim(LogOffset(1), 2)) + b"\0", "1 bytes after its end"),
        (encode(TRIM)[:-1], "cut short"),
        (encode(TRIM) + b"\0", "1 bytes after its end"),
        (encode(replace(TRIM, basis=Basis(1, LogOffset(1), FORGOTTEN[::-1]))), "partitions do not rise"),
        (encode(replace(TRIM, basis=Basis(1, LogOffset(1), FORGOTTEN[:1] * 2))), "partitions do not rise"),
        (with_byte(encode(TRIM), -8, 0), "with one of which nothing is forgotten"),
        (with_byte(encode(TRIM), 33, 0x80), "had read the log up to -"),
        (encode(replace(made(), read_to=LogOffset(-1))), "had read the log up to -1"),
        (encode(made()) + b"\0", "1 bytes after its end"),
        (encode(replace(made(), partition=-1)), "source partition -1: no topic has one"),
        (
            encode(replace(TRIM, basis=Basis(1, LogOffset(1), (Forgotten(TOPIC_ID, -1, SourceOffset(1)),)))),
            "do not rise",
        ),
        (with_byte(encode(made()), 26, 5), "5 tables: must be one of"),
        (with_byte(encode(made()), 22, 0), "batch of 0 entries"),
        (with_byte(encode(made()), 25, 1), "batch of 16777219 entries: must be 1 to 1048576"),
        (with_byte(encode(made()), 29, 0xFF), "topic name is no UTF-8"),
        (encode(made(statuses=[0, 5, 1])), "unknown status 5"),
        (encode(made(offsets=[3, 3, 4])), "offsets do not rise"),
        (encode(made(offsets=[3, 2, 4])), "offsets do not rise"),
    ],
)
def test_damage_is_refused(raw: bytes, message: str) -> None:
    """Damage raises an error whose message names it."""
    with pytest.raises(CorruptError, match=message):
        decode(raw)


def test_texts_that_end_before_they_begin() -> None:
    """Text ends that fall are refused: an entry would get the text of another."""
    batch = made()
    batch.ids.ends[:] = [5, 1, 7]
    with pytest.raises(CorruptError, match="end before they begin"):
        decode(encode(batch))


def test_texts_that_are_none() -> None:
    """Ids that are not UTF-8, joined or one by one, are refused."""
    with pytest.raises(CorruptError, match="whose ids are no UTF-8"):
        decode(encode(replace(made(), ids=Texts(made().ids.ends, b"\xff" * len(made().ids.joined)))))
    batch = replace(made(), ids=Texts(np.array([3, 4, 6], np.uint32), "文章".encode()))
    with pytest.raises(CorruptError, match="ids that end within a character"):
        decode(encode(batch))


def test_log_of_the_format_before() -> None:
    """The error for a record of another format names the formats and the remedy."""
    with pytest.raises(CorruptError, match=r"format 1, and this program reads formats 2 and 3: .* --group"):
        decode(with_byte(encode(made()), 0, 1))
