"""The reference's answers to queries at the level of the posting lists.

A query need not be an entry, and may be asked as of any number of entries.
"""

from collections.abc import Sequence

import numpy as np

from stream_dedup.audit.plain_near import NOT_WITHDRAWN, PlainEntries, PlainQuery, PlainSearch
from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.model import LogOffset, Status, log_position
from stream_dedup.core.probes import words
from stream_dedup.core.rules import Rules

NOTHING_WITHDRAWN: I64 = np.empty((0, 2), np.int64)
Near = list[tuple[int, int]]
"""Of a query: (distance, entry) of each near entry, nearest first, then earliest."""


def plain_entries(
    signatures: U8,
    scope_hashes: U64,
    queries: U8,
    query_scope_hashes: U64,
    *,
    times: I64 | None = None,
    statuses: U8 | None = None,
    sketches: U8 | None = None,
) -> PlainEntries:
    """Columns of the entries, then of the queries, which are of a source of their own.

    ``times``, ``statuses`` and ``sketches`` are those of the entries, then of the queries; None: all of one time, long,
    without sketches.
    """
    n, asked = len(signatures), len(queries)
    numbers = np.arange(n + asked)
    return PlainEntries(
        positions=np.array([log_position(number, 0) for number in numbers.tolist()], np.int64),
        times=np.zeros(n + asked, np.int64) if times is None else times,
        sources=np.repeat([0, 1], [n, asked]),
        offsets=numbers,
        checksums=np.zeros(n + asked, np.uint64),
        statuses=np.full(n + asked, Status.LONG, np.uint8) if statuses is None else statuses,
        words=words(np.concatenate([signatures, queries])).T,
        scope_hashes=np.concatenate([scope_hashes, query_scope_hashes]),
        sketches=np.empty((0, n + asked), np.uint8) if sketches is None else sketches.T,
        ids=np.zeros(n + asked, np.uint64),
        records=numbers,
        withdrawn_at=np.full(n + asked, NOT_WITHDRAWN),
    )


def near_by_definition(
    entries: PlainEntries, rules: Rules, before: Sequence[int], margins: U8, low_watermark: int = 0
) -> list[Near]:
    """What is near each query under the rules, as of the number of entries ``before``.

    ``entries`` ends with the queries; ``margins`` has a row for each.
    """
    search = PlainSearch(entries, rules.scheme)
    first = len(entries) - len(before)
    near: list[Near] = [[] for _ in before]
    for number in np.argsort(before, kind="stable").tolist():
        while search.logged < before[number]:
            search.log_next()
        query = PlainQuery(first + number, rules, margins[number], LogOffset(low_watermark), lambda _: True)
        entries_near, distances = search.near(query)
        near[number] = list(zip(distances.tolist(), entries_near.tolist(), strict=True))
    return near
