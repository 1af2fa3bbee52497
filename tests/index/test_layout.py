"""Keys and values there and back; what does not fit is refused."""

import numpy as np
import pytest

from stream_dedup.core.model import DocNumber, LogOffset, SourceOffset
from stream_dedup.core.probes import blocks
from stream_dedup.errors import CorruptError
from stream_dedup.index import layout
from stream_dedup.index.layout import Head, Segment, Shard
from stream_dedup.index.pages import Pages, encode


@pytest.mark.parametrize(
    "head",
    [
        Head(3, 77, first=DocNumber((1 << 32) - 1)),
        Head(3, 77, np.array([True, False, True])),
        Head(2, np.array([5, 9])),
        Head(9, np.arange(9), np.arange(9) % 2 == 0),
    ],
)
def test_heads(head: Head) -> None:
    """Times and the mask of originals come back as they were."""
    again = Head.decode(head.encode())
    rows = np.arange(head.entries)
    assert again.entries == head.entries
    assert again.times_of(rows).tolist() == head.times_of(rows).tolist()
    assert (again.originals is None) == (head.originals is None)
    assert (again.original_count, again.first) == (head.original_count, head.first)
    with pytest.raises(CorruptError, match="does not fit its"):
        Head.decode(head.encode()[:-1])


def test_shards() -> None:
    """The document number and the numbers of pieces come back; a shard without pieces takes 8 bytes."""
    shard = Shard.empty()
    shard.stored_before = DocNumber(1 << 60)
    assert len(shard.encode()) == 8
    shard.after[4] = 9
    shard.first[4] = 2
    again = Shard.decode(shard.encode())
    assert (again.stored_before, again.first[4], again.after[4], again.after.sum()) == (1 << 60, 2, 9, 9)
    with pytest.raises(CorruptError, match="has 9 bytes"):
        Shard.decode(bytes(9))


def test_source_ranges_sort_by_partition_and_offset() -> None:
    """Keys are in order of topic id, partition, offset."""
    keys = [layout.segment_key(bytes([t]) * 16, p, o) for t in (1, 2) for p in (0, 300) for o in (0, 255, 256, 1 << 40)]
    assert keys == sorted(keys)
    segment = Segment(SourceOffset(256), SourceOffset(300), LogOffset(8), -5, 7)
    assert layout.read_segment(layout.segment_key(bytes(16), 3, 256), segment.encode()) == (bytes(16), 3, segment)
    with pytest.raises(CorruptError, match="cannot be read"):
        layout.read_segment(b"S", b"")


@pytest.mark.parametrize("table", range(8))
def test_entries(table: int) -> None:
    """Of a key word the three other blocks are kept, so 10 bytes with the document number bring it back."""
    words = np.array([0x0123_4567_89AB_CDEF, 1 << 63, 0], np.uint64)
    doc_numbers = np.array([0, 7, (1 << 32) - 1], np.uint32)
    packed = layout.pack_entries(table, words, doc_numbers)
    assert len(packed.tobytes()) == 30
    keys, again = layout.unpack_entries(table, packed, blocks(words)[:, table % 4])
    assert (keys.tolist(), again.tolist()) == (words.tolist(), doc_numbers.tolist())
    other = blocks(words)[:, table % 4] ^ np.uint16(1)
    assert (layout.unpack_entries(table, packed, other)[0] != words).all()


def test_pages() -> None:
    """Pages come back, an empty one as no bytes; lists are taken in any choice; a part of one is refused."""
    counts = np.zeros((3, 64), np.int64)
    counts[0, [0, 5]], counts[2, 63] = (2, 1), 300
    packed = layout.pack_entries(1, np.arange(303, dtype=np.uint64) << np.uint64(48), np.arange(303, dtype=np.uint32))
    raws = encode(counts, packed)
    assert [len(raw) for raw in raws] == [130 + 30, 0, 130 + 3000]
    pages = Pages.decode(raws)
    assert pages.counts.tolist() == counts.tolist()
    assert pages.all().tolist() == packed.tolist()
    taken = pages.take(np.array([0, 1, 2]), np.array([5, 9, 63]))
    assert layout.unpack_doc_numbers(taken).tolist() == list(range(2, 303))
    with pytest.raises(CorruptError, match="does not fit its counts"):
        Pages.decode([raws[0][:-10], raws[2]])
    with pytest.raises(CorruptError, match="not a whole number of entries"):
        Pages.decode([raws[0][:-1]])
    assert layout.page_keys(2, np.array([0, 258])) == [b"P\x02\x00\x00", b"P\x02\x01\x02"]
