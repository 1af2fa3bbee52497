"""Keys and values there and back; what does not fit is refused."""

import numpy as np
import pytest

from stream_dedup.core.model import DocNumber, LogOffset, SourceOffset
from stream_dedup.errors import CorruptError
from stream_dedup.index import layout
from stream_dedup.index.layout import Head, Segment


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
    again, value = Head.split(head.encode() + b"the value")
    assert value == b"the value"
    rows = np.arange(head.entries)
    assert again.entries == head.entries
    assert again.times_of(rows).tolist() == head.times_of(rows).tolist()
    assert (again.originals is None) == (head.originals is None)
    assert (again.original_count, again.first) == (head.original_count, head.first)
    with pytest.raises(CorruptError, match="shorter than its head"):
        Head.split(head.encode()[:-1])


def test_source_ranges_sort_by_partition_and_offset() -> None:
    """Keys are in order of topic id, partition, offset."""
    keys = [layout.segment_key(bytes([t]) * 16, p, o) for t in (1, 2) for p in (0, 300) for o in (0, 255, 256, 1 << 40)]
    assert keys == sorted(keys)
    segment = Segment(SourceOffset(256), SourceOffset(300), LogOffset(8), -5)
    assert layout.read_segment(layout.segment_key(bytes(16), 3, 256), segment.encode()) == ((bytes(16), 3), segment)
    with pytest.raises(CorruptError, match="cannot be read"):
        layout.read_segment(b"S", b"")
