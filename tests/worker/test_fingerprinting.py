"""How a worker shares the records of a batch out among its fingerprinting processes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.worker.fingerprinting import CHUNK_BYTES, CHUNK_RECORDS, chunks

SIZES = st.lists(st.integers(0, CHUNK_BYTES // 3) | st.integers(CHUNK_BYTES - 2, CHUNK_BYTES + 2), max_size=60)


@given(SIZES, st.integers(1, 20))
@example([0] * (2 * CHUNK_RECORDS + 1), CHUNK_RECORDS)
@example([], 8)
def test_each_task_has_as_many_records_as_fit(sizes: list[int], most: int) -> None:
    """Every record is in one task, in order; only a record of its own may be larger than a task, and none is added."""
    parts = list(chunks(sizes, most))
    assert [at for part in parts for at in range(len(sizes))[part]] == list(range(len(sizes)))
    for part in parts:
        assert 1 <= part.stop - part.start <= most
        assert sum(sizes[part]) <= CHUNK_BYTES or part.stop - part.start == 1
    for part, after in pairwise(parts):
        full = part.stop - part.start == most
        assert full or sum(sizes[part]) + sizes[after.start] > CHUNK_BYTES
