"""The sink: transactions of output records and source offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from stream_dedup.core.headers import Headers
from stream_dedup.ports.records import CommittedOffset, Partition
from stream_dedup.ports.source import Membership


class Output(NamedTuple):
    """A record for an output topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class VerdictSink(Protocol):
    """Transactions of output records and source offsets, one after the other. One thread.

        begin, send ..., send_offsets, flush, commit        in this order
        begin, send ..., abort                              at any point before ``commit``

    A new sink is not connected: ``renew`` comes first.

    After any error other than ``NotAMemberError`` of ``send_offsets`` the state of the transaction is unknown:
    ``renew`` settles it.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, outputs: Iterable[Output]) -> None:
        """Send records, in order; their failure shows in ``flush``. May block where too much is unsent.

        Raises:
            RecordTooLargeError, PassingError, RefusedByBrokerError: at once, where it is known at once.
        """

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets; they are committed with the transaction. May block.

        Raises:
            NotAMemberError: the group has gone on without this membership; nothing of these offsets is kept.
            FencedError, PassingError, RefusedByBrokerError.
        """

    def flush(self) -> None:
        """Return when the broker has acknowledged every record of the transaction. May block.

        Raises:
            RecordTooLargeError: a record is larger than its topic takes.
            FencedError, PassingError, RefusedByBrokerError.
        """

    def commit(self) -> None:
        """Commit. May block without limit while the broker is away: a watchdog guards it.

        A normal return promises that readers of committed records see every record and that the offsets are
        committed, or will without anyone's doing.

        Raises:
            FencedError, PassingError: the outcome is unknown.
        """

    def abort(self) -> None:
        """Abort: no record and no offset of the transaction is ever seen. May block as ``commit``.

        Raises:
            FencedError, PassingError: the outcome is unknown; it is not committed, however.
        """

    def renew(self) -> None:
        """Start again under the same transactional ids; an open transaction of any earlier producer is settled.

        May block for the wait for a broker, once for each id. On return an earlier transaction with these ids is
        committed or aborted, and offsets read with ``ArticleSource.committed`` show it. Every earlier producer with
        these ids is fenced.

        Raises:
            PassingError: no coordinator answered in time.
            RefusedByBrokerError: a missing right, or a transaction time-out beyond the broker's limit.
        """

    def abort_hanging(self) -> list[str]:
        """Abort the open transactions of this group's workers that are no members any more; return their ids.

        May block. Any thread. Failing is harmless: the broker aborts them at their time-out.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def close(self) -> None:
        """Close without settling an open transaction. May block for some seconds."""
