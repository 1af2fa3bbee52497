"""The batches that the native core reads are those of the definition, however many are read at once; damage is none."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import numpy as np
import pytest

from stream_dedup.core.columns import Columns, Texts
from stream_dedup.core.entry import Batch, decode, decode_batches, encode, make_batch
from stream_dedup.core.model import SIGNATURE_BYTES, SKETCH_SIZES, TABLE_COUNTS, LogOffset, Status
from stream_dedup.errors import CorruptError
from tests.amount import sampled
from tests.logs import rules, trim_of
from tests.reference.log_batch import decoded_batch

IDS = ["", "a", "https://example.org/1", "第三", "é" * 40]
TOPICS = ["articles", "文章", "a.b-c"]


def drawn(rng: random.Random, tables: int = 4, sketch_bytes: int = 16) -> Batch:
    """A batch of a few entries; some columns may be zero, and are then not in its bytes."""
    n, draw = rng.randint(1, 9), np.random.default_rng(rng.getrandbits(32))
    columns = {
        "checksums": draw.integers(0, 2**64, n, np.uint64),
        "statuses": draw.integers(0, max(Status) + 1, n),
        "scope_hashes": draw.integers(0, 2**64, n, np.uint64),
        "signatures": draw.integers(0, 256, (n, SIGNATURE_BYTES)),
        "margins": draw.integers(0, 256, (n, 8 * tables)),
        "sketches": draw.integers(0, 256, (n, sketch_bytes)),
        "ids": [rng.choice(IDS) for _ in range(n)],
        "reasons": [rng.choice(["", "no text", "坏"]) for _ in range(n)],
    }
    for name, column in columns.items():
        if rng.random() < 0.3:
            columns[name] = [""] * n if name in {"ids", "reasons"} else np.zeros_like(column)
    offsets = np.cumsum([rng.choice([0, 5, 2**50]), *(rng.choice([1, 3, 2**33]) for _ in range(n - 1))])
    read_to = rng.choice([None, LogOffset(0), LogOffset(2**40)])
    made = make_batch(Columns.of(**columns), rng.randbytes(16), rng.choice(TOPICS), rng.randint(0, 2**31 - 1), offsets)
    return replace(made, read_to=read_to, seeded=read_to is not None and rng.random() < 0.5)


def assert_equal(found: object, expected: Batch) -> None:
    assert isinstance(found, Batch)
    assert not found.seeded or found.seeded is True
    for name in (one.name for one in fields(Batch)):
        one, other = getattr(found, name), getattr(expected, name)
        if isinstance(one, Texts):
            assert np.array_equal(one.ends, other.ends)
            assert one.joined == other.joined
        elif isinstance(one, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
            assert one.flags.c_contiguous
            assert not one.flags.writeable
        else:
            assert (type(one), one) == (type(other), other)


@pytest.mark.parametrize("tables", TABLE_COUNTS)
@pytest.mark.parametrize("sketch_bytes", SKETCH_SIZES)
def test_every_undamaged_batch_of_the_format_is_decoded_together(tables: int, sketch_bytes: int) -> None:
    """Of any sizes, texts and topics, with columns that are not there; the widths are those of the first."""
    rng = random.Random(f"{tables}/{sketch_bytes}")
    for _ in range(sampled(range(20), 4)[-1] + 1):
        raws = [encode(drawn(rng, tables, sketch_bytes)) for _ in range(rng.randint(1, 30))]
        full = encode(make_batch(Columns.of(**full_columns(tables, sketch_bytes)), bytes(16), "t", 0, [1]))
        for raw, found in zip([full, *raws], decode_batches([full, *raws]), strict=True):
            expected = decoded_batch(raw)
            assert_equal(decode(raw), expected)
            if expected.widths == (tables, sketch_bytes):
                assert_equal(found, expected)
            else:
                assert found is None


def full_columns(tables: int, sketch_bytes: int) -> dict[str, object]:
    return {
        "checksums": [1],
        "statuses": [0],
        "scope_hashes": [1],
        "signatures": np.ones((1, SIGNATURE_BYTES)),
        "margins": np.ones((1, 8 * tables)),
        "sketches": np.ones((1, sketch_bytes)),
        "ids": ["a"],
        "reasons": ["b"],
    }


@pytest.mark.parametrize("seed", sampled(range(30), 6))
def test_other_values_between_them_are_left_to_decode(seed: int) -> None:
    """Damaged ones, other kinds, another format, other widths: none changes the batches beside it."""
    rng = random.Random(seed)
    good = [drawn(rng) for _ in range(12)]
    others = [
        encode(rules()),
        encode(trim_of(3, 4, 5)),
        b"\4" + encode(drawn(rng))[1:],
        encode(drawn(rng, 8)),
        b"",
        b"\5",
    ]
    others += [damaged(rng, encode(drawn(rng))) for _ in range(12)]
    raws = [encode(make_batch(Columns.of(**full_columns(4, 16)), bytes(16), "t", 0, [1]))]
    raws += rng.sample([*map(encode, good), *others], len(good) + len(others))
    for raw, found in zip(raws, decode_batches(raws), strict=True):
        try:
            expected = decoded_batch(raw)
        except CorruptError:
            assert found is None
            continue
        assert_equal(decode(raw), expected)
        if found is not None or expected.widths == (4, 16):
            assert_equal(found, expected)


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """Cut short, longer, or with a byte or two changed."""
    how = rng.randrange(4)
    if how == 0:
        return raw[: rng.randrange(len(raw))]
    if how == 1:
        return raw + rng.randbytes(rng.randint(1, 9))
    changed = bytearray(raw)
    for _ in range(how - 1):
        changed[rng.randrange(len(raw))] = rng.choice([0, 1, 9, 10, 127, 128, 255])
    return bytes(changed)


@pytest.mark.parametrize(("ids", "read_to"), [(["é", "b第"], LogOffset(5)), (["ab", "cde"], None)])
def test_a_byte_changed_anywhere_is_seen_as_the_definition_sees_it(ids: list[str], read_to: LogOffset | None) -> None:
    """A batch is read if and only if the definition reads it, at each byte and each end, and is then the same."""
    whole = encode(
        make_batch(Columns.of(**two_rows(), ids=ids), bytes(range(16)), "文章", 7, [3, 2**40], read_to=read_to)
    )
    raws = [whole]
    for at in range(len(whole)):
        values = {0, 1, 2, 5, 10, 127, 128, 195, 255, whole[at] ^ 1}
        raws += [whole[:at] + bytes([value]) + whole[at + 1 :] for value in values]
    raws += [whole[:end] for end in range(len(whole))] + [whole + b"\0"]
    taken = 0
    for raw, together in zip(raws, decode_batches(raws), strict=True):
        (alone,) = decode_batches([raw])
        try:
            expected = decoded_batch(raw)
        except CorruptError:
            assert alone is None
            assert together is None
            continue
        assert_equal(alone, expected)
        if expected.widths == (4, 8):
            assert_equal(together, expected)
        taken += 1
    assert 500 < taken < len(raws) - 500


def two_rows() -> dict[str, object]:
    return {
        "checksums": [1, 2],
        "statuses": [0, Status.REJECTED],
        "scope_hashes": [1, 0],
        "signatures": np.ones((2, SIGNATURE_BYTES)),
        "margins": np.ones((2, 32)),
        "sketches": np.ones((2, 8)),
        "reasons": ["", "no text"],
    }
