"""The tables compared with the reference, over fingerprints alone."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.api import open_library, signatures_of
from stream_dedup.core.model import Status
from stream_dedup.core.query import Articles, Query, query_of
from stream_dedup.core.rules import Rules
from stream_dedup.index import IndexSettings, LogIndex
from tests.definition import NOTHING_WITHDRAWN, near_by_definition, plain_entries
from tests.index.checks import add_numbers, near_of
from tests.logs import SCHEME
from tests.random_logs import RandomEntries

pytestmark = pytest.mark.usefixtures("small_limits")


def query(values: list[int], positions: list[int], k: int, limit: int, best: int = 2_000) -> Query:
    count = len(values)
    articles = Articles(
        statuses=np.full(count, Status.LONG, np.uint8),
        scope_hashes=np.zeros(count, np.uint64),
        signatures=signatures_of(np.array(values, np.uint64)),
        margins=np.zeros((count, 32), np.uint8),
        sketches=np.empty((count, 0), np.uint8),
        before=np.array(positions, np.int64),
        times=np.zeros(count, np.int64),
    )
    return replace(query_of(articles, Rules(SCHEME, distance=k, bucket_limit=limit), NOTHING_WITHDRAWN), best=best)


def found(index: LogIndex, question: Query) -> list[list[tuple[int, int]]]:
    near = near_of(index, question)
    lists: list[list[tuple[int, int]]] = [[] for _ in range(len(question))]
    for number, position, distance in zip(near.queries, near.doc_numbers, near.distances, strict=True):
        lists[number].append((int(distance), int(position)))
    return lists


def by_definition(
    values: list[int], wanted: list[int], as_of: list[int], k: int, limit: int
) -> list[list[tuple[int, int]]]:
    """What the reference finds near these fingerprints, as of a number of entries each."""
    entries, queries = (signatures_of(np.array(some, np.uint64)) for some in (values, wanted))
    columns = plain_entries(entries, np.zeros(len(values), np.uint64), queries, np.zeros(len(wanted), np.uint64))
    rules = Rules(SCHEME, distance=k, bucket_limit=limit)
    return near_by_definition(columns, rules, as_of, np.zeros((len(wanted), 32), np.uint8))


@pytest.mark.parametrize("memory_mib", [0, 17, 1_000])
@pytest.mark.parametrize("fold_entries", [1, 50, 10_000])
def test_a_reopened_index_finds_the_same(tmp_path: Path, fold_entries: int, memory_mib: int) -> None:
    """Stored entries and entries in memory both come back, each once."""
    rng = random.Random(fold_entries)
    source = RandomEntries(rng, 3, tables=4)
    settings = IndexSettings(fold_entries=fold_entries, memory_mib=memory_mib)
    entries: list[int] = []
    for _ in range(4):
        index = open_library(tmp_path, SCHEME, settings)
        values = [source.fingerprint() for _ in range(37)]
        add_numbers(index, values)
        entries += values
        index.close()
    index = open_library(tmp_path, SCHEME, settings)
    wanted = [source.fingerprint() for _ in range(20)]
    expected = by_definition(entries, wanted, [len(entries)] * 20, 5, 9)
    assert found(index, query(wanted, [len(entries)] * 20, 5, 9)) == expected
    index.close()


def test_candidates_are_counted(tmp_path: Path) -> None:
    """Candidates are the entries of the lists that are looked up, as often as they are met."""
    index = open_library(tmp_path, SCHEME)
    add_numbers(index, [5, 5 ^ (1 << 63), 1 << 40])
    near_of(index, query([5], [3], 3, 16_384))
    # Equal in block 0: a, c; in block 1: a, b; in block 2: all; in block 3: a, b.
    assert index.counters.candidates == 2 + 2 + 3 + 2
    assert (index.counters.lookups, index.counters.lists) == (1, 4)
    index.close()
