"""Comparing an index with the plain definition."""

import numpy as np

from stream_dedup.core.entry import LogRecord
from stream_dedup.index import LogIndex
from tests.index.logs import TOPICS
from tests.index.plain import PlainLog


def covered_positions(plain: PlainLog) -> list[int]:
    """Log positions of everything that stands, in order."""
    positions = [position for covered in plain.covered.values() for position, _ in covered.values() if position >= 0]
    return sorted(positions)


def check_verdicts(index: LogIndex, plain: PlainLog, positions: list[int]) -> None:
    """The index says of these log positions what the definition says."""
    assert index.judge(np.array(positions, np.int64)) == [plain.judge(position) for position in positions]


def check_standing(index: LogIndex, plain: PlainLog) -> None:
    """The index knows where every offset stands, and that others do not."""
    for topic_id in TOPICS:
        for partition in (0, 1):
            covered = plain.covered.get((topic_id, partition), {})
            asked = [offset for offset in range(max(covered, default=0) + 3) if covered.get(offset, (-1, 0))[0] != -2]
            expected = [covered.get(offset, (-1, 0))[0] for offset in asked]
            assert index.standing(topic_id, partition, np.array(asked, np.int64)).tolist() == expected
    last = {where: max(covered) for where, covered in plain.covered.items() if covered}
    assert index.partitions() == last


def build(index: LogIndex, records: list[LogRecord]) -> LogIndex:
    """Apply a whole log in one call."""
    index.begin("a log")
    index.apply(records)
    return index
