"""The newest entries, which are sorted when they are looked up."""

from __future__ import annotations

import numpy as np
import pytest

from stream_dedup.core.arrays import U32, U64
from stream_dedup.index import tables
from stream_dedup.index.posting_lists import Blocks, Run
from stream_dedup.index.runs import sorted_run
from stream_dedup.index.settings import RECENT_ENTRIES
from stream_dedup.index.tables import _Young

TABLES = [Blocks(table) for table in range(8)]
FIRST = 40
"""Document number of the first entry."""


def young_of(sizes: list[int]) -> tuple[_Young, U64]:
    """Entries that were appended so many at a time and looked up after each, and the keys of all."""
    keys = np.random.default_rng(3).integers(0, 1 << 64, (sum(sizes), 4), np.uint64)
    young, first = _Young(TABLES), 0
    for size in sizes:
        young.add(keys[first : first + size], numbers_from(first, size))
        young.runs()
        first += size
    return young, keys


def numbers_from(first: int, size: int) -> U32:
    return np.arange(FIRST + first, FIRST + first + size).astype(np.uint32)


def entries_of(runs: list[Run]) -> list[tuple[int, int]]:
    """Document number and key of each entry, those of an older run first."""
    return [entry for run in runs for entry in sorted(zip(run.doc_numbers.tolist(), run.keys.tolist(), strict=True))]


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ([], 0),
        ([RECENT_ENTRIES], 1),
        ([RECENT_ENTRIES + 1], 1),
        ([RECENT_ENTRIES + 1, 5, 1], 2),
        ([20] * 30, 2),
        ([RECENT_ENTRIES, 1], 1),
        ([RECENT_ENTRIES + 1, RECENT_ENTRIES, 1], 1),
    ],
)
def test_every_entry_is_in_one_run_of_each_table_older_ones_first(sizes: list[int], runs: int) -> None:
    """However many were appended at a time."""
    young, keys = young_of(sizes)
    assert len(young) == len(keys)
    for blocks, of_table in zip(TABLES, young.runs(), strict=True):
        assert len(of_table) == runs
        assert {run.blocks for run in of_table} <= {blocks}
        assert entries_of(of_table) == [(FIRST + at, key) for at, key in enumerate(keys[:, blocks.word].tolist())]


def test_what_is_taken_is_forgotten() -> None:
    """Entries in the order of the log; those that are appended afterwards are alone."""
    young, keys = young_of([RECENT_ENTRIES + 1, 3])
    taken, numbers = young.take()
    assert np.array_equal(taken, keys)
    assert np.array_equal(numbers, numbers_from(0, len(keys)))
    assert (len(young), young.runs()) == (0, [[]] * len(TABLES))
    young.add(keys[:2], numbers_from(500, 2))
    assert entries_of(young.runs()[0]) == [(FIRST + 500, int(keys[0, 0])), (FIRST + 501, int(keys[1, 0]))]


def test_a_small_batch_does_not_sort_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two thousand entries, one at a time, each look-up sorts the newest only, and all of them rarely."""
    sizes: list[int] = []

    def counted(blocks: Blocks, words: U64, doc_numbers: U32) -> Run:
        sizes.append(len(words))
        return sorted_run(blocks, words, doc_numbers)

    monkeypatch.setattr(tables, "sorted_run", counted)
    entries = 8 * RECENT_ENTRIES
    young_of([1] * entries)
    assert len(sizes) <= entries * len(TABLES)
    assert sum(size > RECENT_ENTRIES for size in sizes) <= 8 * len(TABLES)
