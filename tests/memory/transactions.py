"""The transaction coordinator: producer epochs, open transactions, and their two-phase end.

A transaction of a transactional id goes through these states:

    none        renew: the epoch rises. begin: the first record, or the first offsets
    ongoing     end by its producer; by a renew under the same id; by its time-out: the last two fence its producer
    completing  the decision is made and will not change; control records are written one by one, offsets with them
    none        every partition has its control record

A producer of an earlier epoch is fenced: nothing that it sends has any effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from stream_dedup.ports import CommittedOffset, FencedError, Partition, PassingError
from tests.memory.partition import Message, PartitionLog, PartitionTransaction
from tests.memory.runtime import Signal

if TYPE_CHECKING:
    from tests.memory.broker import Cluster
    from tests.memory.group import Group


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction, from its first record or offsets to its last control record."""

    parts: dict[PartitionLog, PartitionTransaction] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    """Groups that hold pending offsets of it."""
    left: int = 0
    """Control records to be written, while it is completing."""


@dataclass(slots=True, eq=False)
class TransactionalId:
    """What the coordinator knows of one transactional id."""

    name: str
    epoch: int = 0
    timeout_s: float = 60.0
    ongoing: Transaction | None = None
    completing: Transaction | None = None
    completed: Signal = field(default_factory=Signal)


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A producer under a transactional id, until the next one under the same id is started."""

    of: TransactionalId
    epoch: int

    @property
    def fenced(self) -> bool:
        """Whether it may do nothing more."""
        return self.epoch != self.of.epoch


class Transactions:
    """All transactional ids of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ids: dict[str, TransactionalId] = {}

    def renew(self, name: str, timeout_s: float) -> TransactionalId:
        """Fence every producer of this id and abort its open transaction; ``open_session`` follows."""
        known = self._ids.setdefault(name, TransactionalId(name))
        known.epoch += 1
        known.timeout_s = timeout_s
        if known.ongoing is not None:
            self._decide(known, committed=False)
        return known

    def abort(self, name: str) -> None:
        """Abort the open transaction of this id, and fence its producer."""
        known = self._ids[name]
        self.renew(name, known.timeout_s)

    def ongoing(self) -> list[str]:
        """Return the transactional ids with an open transaction."""
        return [name for name, known in self._ids.items() if known.ongoing is not None]

    def produce(self, session: Session, partition: PartitionLog, message: Message) -> int:
        """Append a record to the open transaction, which begins with its first record.

        Raises:
            FencedError: the session is not the last one of its id.
            PassingError: the transaction before is still completing, or there is no such topic.
            RecordTooLargeError: it is larger than the topic takes.
        """
        transaction = self._transaction(session)
        part = transaction.parts.get(partition)
        if part is not None:
            return self._cluster.append(partition, message, part)
        part = partition.begin_transaction()
        try:
            offset = self._cluster.append(partition, message, part)
        except BaseException:
            partition.open.remove(part)
            raise
        transaction.parts[partition] = part
        return offset

    def add_offsets(self, session: Session, group: Group, offsets: Mapping[Partition, CommittedOffset]) -> None:
        """Add offsets, which the group has admitted, to the open transaction.

        Raises:
            FencedError: the session is not the last one of its id.
            PassingError: the transaction before is still completing.
        """
        transaction = self._transaction(session)
        transaction.groups[group.name] = group
        group.add_pending(transaction, offsets)

    def end(self, session: Session, *, committed: bool) -> None:
        """Decide on the open transaction, if there is one.

        Raises:
            FencedError: the session is not the last one of its id.
        """
        self._check(session)
        if session.of.ongoing is not None:
            self._decide(session.of, committed=committed)

    def _check(self, session: Session) -> None:
        if session.fenced:
            raise FencedError(f"a later producer was started with the transactional id {session.of.name}")

    def _transaction(self, session: Session) -> Transaction:
        """Return the open transaction of a session; begin one, if there is none."""
        self._check(session)
        known = session.of
        if known.completing is not None:
            raise PassingError(f"the transaction before of {known.name} is still completing")
        if known.ongoing is None:
            begun = known.ongoing = Transaction()
            runtime = self._cluster.runtime
            runtime.call_at(runtime.now() + known.timeout_s, lambda: self._time_out(known, begun))
        return known.ongoing

    def _time_out(self, known: TransactionalId, transaction: Transaction) -> None:
        if known.ongoing is transaction:
            known.epoch += 1
            self._decide(known, committed=False)

    def _decide(self, known: TransactionalId, *, committed: bool) -> None:
        """Begin the second phase: a control record in each partition, and the offsets of each group."""
        transaction, known.ongoing = known.ongoing, None
        assert transaction is not None
        known.completing = transaction
        transaction.left = len(transaction.parts) + len(transaction.groups)
        if not transaction.left:
            self._complete(known)
        for partition, part in list(transaction.parts.items()):
            self._later(partial(self._write_marker, known, partition, part, committed=committed))
        for group in list(transaction.groups.values()):
            self._later(partial(self._settle_offsets, known, transaction, group, committed=committed))

    def _later(self, run: Callable[[], None]) -> None:
        delay = self._cluster.timings.marker_s()
        if delay > 0:
            self._cluster.runtime.call_at(self._cluster.runtime.now() + delay, run)
        else:
            run()

    def _write_marker(
        self, known: TransactionalId, partition: PartitionLog, part: PartitionTransaction, *, committed: bool
    ) -> None:
        if part in partition.open:  # not truncated meanwhile
            partition.end_transaction(part, self._cluster.time_ms(partition.leader), committed=committed)
        self._one_done(known)

    def _settle_offsets(
        self, known: TransactionalId, transaction: Transaction, group: Group, *, committed: bool
    ) -> None:
        group.end_pending(transaction, committed=committed)
        self._one_done(known)

    def _one_done(self, known: TransactionalId) -> None:
        assert known.completing is not None
        known.completing.left -= 1
        if known.completing.left == 0:
            self._complete(known)

    def _complete(self, known: TransactionalId) -> None:
        known.completing = None
        known.completed.fire()
