"""A sink of two transactional ids in turn, so that a transaction does not wait for the end of the one before.

A commit is answered when its outcome is certain; the broker then writes markers to all partitions of the transaction,
and refuses another transaction of the same id meanwhile. A client that begins the next one at once asks again and again
for some 5 to 20 ms. With another id it is taken at once. Rules:

* One transaction is open at a time: the next one begins when the commit of the one before was answered. So none can be
  committed that follows one whose outcome is not certain.
* Records of the one before were acknowledged before: they are first in their partitions. Readers of committed records
  wait for its markers where they are not there yet.
* Offsets of both may wait for their markers in the group at once. Whichever comes first, the broker keeps those that
  were sent later.
* ``renew`` settles both, and fences earlier producers of both, before either is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.ports import CommittedOffset, Membership, Output, Partition, VerdictSink


class AlternatingSink:
    """Implements ``ports.VerdictSink`` by two of them."""

    def __init__(self, one: VerdictSink, other: VerdictSink) -> None:
        """Begin with the first; both connect with the first ``renew``."""
        self._sinks = (one, other)
        self._number = 1

    def begin(self) -> None:
        """Begin a transaction, of the id whose turn it is."""
        self._number = 1 - self._number
        self.now.begin()

    def send(self, outputs: Iterable[Output]) -> None:
        """Send records, in order."""
        self.now.send(outputs)

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets."""
        self.now.send_offsets(offsets, membership)

    def flush(self) -> None:
        """Return when the broker has acknowledged every record of the transaction."""
        self.now.flush()

    def commit(self) -> None:
        """Commit."""
        self.now.commit()

    def abort(self) -> None:
        """Abort."""
        self.now.abort()

    def renew(self) -> None:
        """Start again under both ids."""
        for sink in self._sinks:
            sink.renew()
        self._number = 1

    def abort_hanging(self) -> list[str]:
        """Abort the open transactions of this group's workers that are no members any more; return their ids."""
        return self._sinks[0].abort_hanging()

    def close(self) -> None:
        """Close without settling an open transaction."""
        for sink in self._sinks:
            sink.close()

    @property
    def now(self) -> VerdictSink:
        """The one of the transaction that was begun last."""
        return self._sinks[self._number]
