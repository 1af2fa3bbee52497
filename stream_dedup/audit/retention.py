"""What retention can have deleted from the output topics: which missing outputs it excuses, and how many.

Pure. Retention deletes the first records of a partition and nothing else, so the output of an article can have been
deleted from a partition of its verdict's topic only if none of these rules excludes it:

    1  Begin. The partition has deleted records: its first offset is above 0.
    2  Order. Outputs of one source partition are written in source order. If the partition still has the output of an
       earlier article of the same source partition, a later one was written after it, hence is kept.
    3  Time. An output is written after its article was logged. If the article was logged after a record that is still
       kept was written, its output was written later still. The two times are of different clocks and of different
       steps, so they are compared with an allowance. A log time that is too late, of a broker whose clock was ahead,
       is corrected by the caller, where a later log record has an earlier time, or where it is still in the future.
    4  Room. So many articles at most have been deleted from a partition as there are offsets before its first.

Rule 4 concerns all articles together: the most outputs that can have been deleted are a maximum flow from the articles
to the partitions. Everything beyond it is missing for certain. Which articles are missing is then not known: the older
ones are excused first, because retention deletes old records first.

The key of an article would name its partition, but not for certain: partitions may have been added to the topic since.

Rule 2 does not hold where offsets were set back: outputs of earlier articles are then written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from stream_dedup.audit.reference import SourcePartition
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import Partition

Choice = frozenset[Partition]
"""Partitions from which one and the same output can have been deleted."""


class Retention:
    """Learns what the output partitions still hold, then says where an output can have been deleted."""

    def __init__(self, begins: Mapping[Partition, int], allowance_ms: int, *, ordered: bool) -> None:
        """Take the first offset of each output partition; ``ordered``: rule 2 holds."""
        self.room = {partition: begin for partition, begin in begins.items() if begin > 0}
        self._allowance_ms = allowance_ms
        self._ordered = ordered
        self._written: dict[Partition, int] = {}
        self._first: dict[tuple[SourcePartition, Partition], SourceOffset] = {}
        self._choices: dict[Choice, Choice] = {}

    def add(self, partition: Partition, time: int, source: SourcePartition, offset: SourceOffset) -> None:
        """Take a kept output, and the source offset of its article."""
        if partition in self.room:
            self._written[partition] = min(time, self._written.get(partition, time))
            where = (source, partition)
            self._first[where] = min(offset, self._first.get(where, offset))

    def may_have_deleted(
        self, topics: frozenset[str], time: int, source: SourcePartition, offset: SourceOffset
    ) -> Choice:
        """Return the partitions of these topics from which the output of an article can have been deleted.

        Equal choices are one object: a set of some kilobytes for each missing output would not fit into memory.
        """
        choice = frozenset(
            partition
            for partition in self.room
            if partition.topic in topics
            and not (self._ordered and self._first.get((source, partition), offset) < offset)
            and time <= self._written.get(partition, time) + self._allowance_ms
        )
        return self._choices.setdefault(choice, choice)


def most_deleted(wanted: Mapping[Choice, int], room: Mapping[Partition, int]) -> dict[Choice, int]:
    """Return how many outputs of each choice were deleted, where as many as possible were.

    ``wanted`` has the number of missing outputs of each choice, ``room`` the number of deleted records. Each round
    finds the shortest chain of moves that makes room for one more (Edmonds and Karp 1972). Where there is none, all
    partitions that were reached are full for ever, and no later round looks at them.
    """
    left = dict(room)
    held: dict[Partition, Counter[Choice]] = {partition: Counter() for partition in room}
    full: set[Partition] = set()
    deleted: dict[Choice, int] = {}
    for choice in sorted(wanted, key=sorted):
        count = wanted[choice]
        while count and (chain := _shortest_chain(choice, left, held, full)):
            leaving = [(other, at) for (_, at), (other, _) in pairwise(chain)]
            step = min(count, left[chain[-1][1]], *(held[at][other] for other, at in leaving))
            for other, to in chain:
                held[to][other] += step
            for other, at in leaving:
                held[at][other] -= step
            left[chain[-1][1]] -= step
            count -= step
        deleted[choice] = wanted[choice] - count
    return deleted


def _shortest_chain(
    start: Choice,
    left: Mapping[Partition, int],
    held: Mapping[Partition, Mapping[Choice, int]],
    full: set[Partition],
) -> list[tuple[Choice, Partition]]:
    """Return who moves where so that one output more of ``start`` has room; empty, if that is not possible.

    Each pair is a choice and the partition that it moves to; the choice of the next pair leaves that partition.
    """
    seen = set(start - full)
    queue = [[(start, to)] for to in sorted(seen)]
    for chain in queue:
        at = chain[-1][1]
        if left[at]:
            return chain
        for other in (choice for choice, count in held[at].items() if count):
            for to in sorted(other - seen - full):
                seen.add(to)
                queue.append([*chain, (other, to)])
    full |= seen
    return []
