"""The reference's answers to queries at the level of the posting lists.

A query need not be an entry, and may be asked as of any number of entries.
"""

from collections.abc import Sequence

import numpy as np

from stream_dedup.audit.plain_near import PlainEntries, PlainQuery, PlainSearch
from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.model import LogOffset, Status, log_position
from stream_dedup.core.probes import words
from stream_dedup.core.rules import Rules

QUERY_TIME = 1_000
"""Log time of every query, later than that of any entry."""

Near = list[tuple[int, int]]
"""Of a query: (distance, entry) of each near entry, nearest first, then earliest."""


def plain_entries(
    signatures: U8,
    scope_hashes: U64,
    queries: U8,
    query_scope_hashes: U64,
    *,
    times: I64 | None = None,
    short: Sequence[int] = (),
    sketches: U8 | None = None,
) -> PlainEntries:
    """Columns of the entries, then of the queries, which are of a source of their own.

    ``sketches`` are those of the entries, then of the queries; None: there are none.

    Queries at the indices ``short`` are so short that only an equal text is near.
    """
    n, asked = len(signatures), len(queries)
    numbers = np.arange(n + asked)
    statuses = np.full(n + asked, Status.LONG, np.uint8)
    statuses[n + np.array(short, np.int64)] = Status.EXACT
    entry_times = np.zeros(n, np.int64) if times is None else times
    return PlainEntries(
        positions=np.array([log_position(number, 0) for number in numbers.tolist()], np.int64),
        times=np.concatenate([entry_times, np.full(asked, QUERY_TIME)]),
        sources=np.repeat([0, 1], [n, asked]),
        offsets=numbers,
        checksums=np.zeros(n + asked, np.uint64),
        statuses=statuses,
        words=words(np.concatenate([signatures, queries])).T,
        scope_hashes=np.concatenate([scope_hashes, query_scope_hashes]),
        sketches=np.empty((0, n + asked), np.uint8) if sketches is None else sketches.T,
        ids=np.zeros(n + asked, np.uint64),
        records=numbers,
    )


def near_by_definition(
    entries: PlainEntries, rules: Sequence[Rules], before: Sequence[int], margins: U8, low_watermark: int = 0
) -> list[Near]:
    """What is near each query under its rules, as of the number of entries ``before``.

    ``entries`` ends with the queries; ``margins`` has a row for each.
    """
    search = PlainSearch(entries, rules[0].scheme if rules else None)
    first = len(entries) - len(before)
    near: list[Near] = [[] for _ in before]
    for number in np.argsort(before, kind="stable").tolist():
        while search.logged < before[number]:
            search.log_next()
        query = PlainQuery(first + number, rules[number], margins[number], LogOffset(low_watermark), lambda _: True)
        near[number] = [(distance, entry) for entry, distance in search.near(query)]
    return near
