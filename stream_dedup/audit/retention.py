"""What retention can have deleted from the output topics: which missing outputs it excuses.

Pure. Retention deletes the first records of a partition and nothing else, so the output of an article can have been
deleted from a partition of its verdict's topic only if none of these rules excludes it:

    1  Begin. The partition has deleted records: its first offset is above 0.
    2  Order. Outputs of one source partition are written in source order. If the partition still has the output of an
       earlier article of the same source partition, a later one was written after it, hence is kept.
    3  Time. An output is written after its article was logged. If the article was logged after a record that is still
       kept was written, its output was written later still. The two times are of different clocks and of different
       steps, so they are compared with an allowance. A log time that is too late, of a broker whose clock was ahead,
       is corrected by the caller, where a later log record has an earlier time, or where it is still in the future.
    4  Room. So many articles at most have been deleted from a topic as its partitions have offsets before their first.

Which articles are missing, where rule 4 excuses some of them, is not known: the older ones are excused first, because
retention deletes old records first.

The key of an article would name its partition, but not for certain: partitions may have been added to the topic since.

Rule 2 does not hold where offsets were set back: outputs of earlier articles are then written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from stream_dedup.audit.reference import SourcePartition
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import Partition


class Retention:
    """Learns what the output partitions still hold, then says which outputs can have been deleted."""

    def __init__(self, begins: Mapping[Partition, int], allowance_ms: int, *, ordered: bool) -> None:
        """Take the first offset of each output partition; ``ordered``: rule 2 holds."""
        self._begins = {partition: begin for partition, begin in begins.items() if begin > 0}
        self._allowance_ms = allowance_ms
        self._ordered = ordered
        self._written: dict[Partition, int] = {}
        self._first: dict[tuple[SourcePartition, Partition], SourceOffset] = {}

    def add(self, partition: Partition, time: int, source: SourcePartition, offset: SourceOffset) -> None:
        """Take a kept output, and the source offset of its article."""
        if partition in self._begins:
            self._written[partition] = min(time, self._written.get(partition, time))
            where = (source, partition)
            self._first[where] = min(offset, self._first.get(where, offset))

    def may_have_deleted(
        self, topics: frozenset[str], time: int, source: SourcePartition, offset: SourceOffset
    ) -> frozenset[str]:
        """Return from which of these topics the output of an article can have been deleted, by rules 1 to 3."""
        return frozenset(
            partition.topic
            for partition in self._begins
            if partition.topic in topics
            and not (self._ordered and self._first.get((source, partition), offset) < offset)
            and time <= self._written.get(partition, time) + self._allowance_ms
        )

    def excused(self, missing: Mapping[int, frozenset[str]]) -> set[int]:
        """Return which of these articles rule 4 excuses, older ones first: as many as it allows.

        ``missing`` has the topics of each article by ``may_have_deleted``. An output that can have been in one topic
        only comes before those that can have been in two: they take what is left.
        """
        room: Counter[str] = Counter()
        for partition, begin in self._begins.items():
            room[partition.topic] += begin
        found = set()
        for article, topics in sorted(missing.items(), key=lambda one: (len(one[1]), one[0])):
            topic = next((name for name in sorted(topics) if room[name]), None)
            if topic is not None:
                room[topic] -= 1
                found.add(article)
        return found
