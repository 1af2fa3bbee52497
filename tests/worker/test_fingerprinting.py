"""How a worker shares the records of a batch out among its fingerprinting processes."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.worker.fingerprinting import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    LEAST_SHARE_RECORDS,
    BatchFingerprinter,
    chunks,
)

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


@pytest.mark.parametrize(
    ("records", "processes", "tasks"),
    [
        (0, 2, []),
        (1, 2, [1]),
        (2 * LEAST_SHARE_RECORDS - 1, 2, [2 * LEAST_SHARE_RECORDS - 1]),
        (2 * LEAST_SHARE_RECORDS, 2, [LEAST_SHARE_RECORDS] * 2),
        (2 * LEAST_SHARE_RECORDS + 1, 2, [LEAST_SHARE_RECORDS + 1, LEAST_SHARE_RECORDS]),
        (2 * LEAST_SHARE_RECORDS, 1, [2 * LEAST_SHARE_RECORDS]),
        (4 * LEAST_SHARE_RECORDS, 8, [LEAST_SHARE_RECORDS] * 4),
        (3 * CHUNK_RECORDS, 2, [CHUNK_RECORDS] * 3),
    ],
)
def test_a_batch_is_shared_out_in_equal_tasks(records: int, processes: int, tasks: list[int]) -> None:
    """No more than there are processes, and none so small that handing it over costs more than it saves."""
    given: list[int] = []

    def submit_all(wanted: list[tuple[list[object], object]]) -> list[Future[object]]:
        given.extend(len(task) for task, _ in wanted)
        return [Future() for _ in wanted]

    pool: Any = SimpleNamespace(submit_all=submit_all)
    record: Any = SimpleNamespace(topic="articles", partition=0, offset=0, key=None, value=b"text", headers=[])
    widths: Any = None
    BatchFingerprinter(pool, processes, 1 << 20, widths).submit([record] * records)
    assert given == tasks
