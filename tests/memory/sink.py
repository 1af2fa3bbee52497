"""The port ``VerdictSink`` in memory: a transactional producer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from stream_dedup.kafka.hanging_transactions import transactional_ids
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    Membership,
    NotAMemberError,
    Output,
    Partition,
    PassingError,
    PortError,
    RefusedByBrokerError,
)
from tests.memory.broker import Cluster
from tests.memory.partition import Message
from tests.memory.runtime import Connection, hooked
from tests.memory.transactions import Session

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SECOND = "-2"
"""End of the second transactional id of a worker."""
LONGEST_TRANSACTION_S = 900.0
"""The broker's default for ``transaction.max.timeout.ms``, in seconds."""
START_WAIT_S = 10.0
"""The longest wait for a coordinator."""
COMPLETING_S = 60.0
"""The longest wait for the control records of the transaction before: longer than any of them takes."""


class MemorySink:
    """Transactions of output records and source offsets, under one transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        connection: Connection,
        group: str,
        transactional_id: str,
        transaction_timeout_s: float = 60.0,
    ) -> None:
        """``renew`` starts the producer."""
        self.connection = connection
        self._cluster = cluster
        self._group = group
        self._id = transactional_id
        self._timeout_s = transaction_timeout_s
        self._session: Session | None = None
        self._is_open = False
        self._failed: PortError | None = None

    @hooked("sink.begin")
    def begin(self) -> None:
        if self._is_open:
            msg = "a transaction is open already"
            raise RuntimeError(msg)
        self._is_open = True
        self._failed = None

    def send(self, outputs: Iterable[Output]) -> None:
        session = self._open_session()
        for output in outputs:
            if self._failed is not None:
                return
            try:
                self._produce(session, output)
            except PortError as error:
                self._failed = error  # the client sends in the background: it shows in ``flush``

    @hooked("sink.send")
    def _produce(self, session: Session, output: Output) -> None:
        self._await_completed(session)
        message = Message(output.key, output.value, output.headers, output.timestamp_ms)
        partition = self._partition_of(output.topic, output.key)
        self._cluster.transactions.produce(session, self._cluster.partition(partition), message)

    @hooked("sink.send_offsets")
    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        session = self._open_session()
        if membership.generation < 0:
            msg = "the membership has no generation"
            raise NotAMemberError(msg)
        self._await_completed(session)
        if session.fenced:
            raise FencedError(self._id)
        group = self._cluster.group(self._group)
        group.check(membership.proof)
        self._cluster.transactions.add_offsets(session, group, offsets)

    @hooked("sink.flush")
    def flush(self) -> None:
        self._open_session()
        if self._failed is not None:
            raise self._failed

    @hooked("sink.commit")
    def commit(self) -> None:
        self._end(committed=True)

    @hooked("sink.abort")
    def abort(self) -> None:
        self._end(committed=False)

    def renew(self) -> None:
        self._begin_renew()
        self._end_renew()

    @hooked("sink.abort_hanging")
    def abort_hanging(self) -> list[str]:
        ours = re.compile(f"{re.escape(self._group)}-{UUID}(?:{SECOND})?")
        members = self._cluster.group(self._group).client_ids()
        hanging = [
            name
            for name in sorted(self._cluster.transactions.ongoing())
            if ours.fullmatch(name) and name.removesuffix(SECOND) not in {self._id, *members}
        ]
        for name in hanging:
            self._cluster.transactions.abort(name)
        return hanging

    @hooked("sink.close")
    def close(self) -> None:
        self._is_open = False
        self._session = None

    def discard(self) -> None:
        """Give the producer up; what is open stays open at the broker."""
        self._is_open = False
        self._session = None

    def end_request(self, *, committed: bool) -> Callable[[], None]:
        """Return what carries out the end of the open transaction, for a request that arrives late."""
        session = self._open_session()

        def end() -> None:
            if not session.fenced:
                self._cluster.transactions.end(session, committed=committed)

        return end

    @hooked("sink.renew")
    def _begin_renew(self) -> None:
        """Fence the producers before and abort what is open: the coordinator's part of ``renew``."""
        if self._timeout_s > LONGEST_TRANSACTION_S:
            msg = "the transaction timeout is larger than the broker's maximum"
            raise RefusedByBrokerError(msg)
        known = self._cluster.transactions.renew(self._id, self._timeout_s)
        self._session = Session(known, known.epoch)
        self._is_open = False
        self._failed = None

    @hooked("sink.renewed")
    def _end_renew(self) -> None:
        """Wait until the transaction before has its control records."""
        if self._session is not None:
            self._await_completed(self._session)

    def _await_completed(self, session: Session) -> None:
        """Wait until the transaction before this one has its control records.

        Raises:
            PassingError: it has not, after a long time.
        """
        runtime = self._cluster.runtime
        deadline = runtime.now() + COMPLETING_S
        while session.of.completing is not None and not session.fenced:
            left = deadline - runtime.now()
            if left <= 0:
                msg = f"the transaction before of {self._id} does not complete"
                raise PassingError(msg)
            runtime.wait(session.of.completed, left)

    def _end(self, *, committed: bool) -> None:
        # The client commits whatever became of the records: only ``flush`` tells.
        session = self._open_session()
        self._cluster.transactions.end(session, committed=committed)
        self._is_open = False

    def _open_session(self) -> Session:
        if self._session is None or not self._is_open:
            msg = "no transaction is open"
            raise RuntimeError(msg)
        return self._session

    def _partition_of(self, topic: str, key: bytes | None) -> Partition:
        count = self._cluster.partition_counts().get(topic, 1)
        return Partition(topic, sum(key or b"") % count)


class AlternatingMemorySink:
    """Two transactional ids in turn, as ``kafka.sink`` has it on a broker."""

    def __init__(self, one: MemorySink, other: MemorySink) -> None:
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
        """Start again under both ids; under neither where one cannot."""
        try:
            for sink in self._sinks:
                sink.discard()
            for sink in self._sinks:
                sink.renew()
        except PortError:
            for sink in self._sinks:
                sink.discard()
            raise
        self._number = 1

    def abort_hanging(self) -> list[str]:
        """Abort the open transactions of this group's workers that are no members any more; return their ids."""
        return self._sinks[0].abort_hanging()

    def close(self) -> None:
        """Close without settling an open transaction."""
        for sink in self._sinks:
            sink.close()

    @property
    def now(self) -> MemorySink:
        """The one of the transaction that was begun last."""
        return self._sinks[self._number]


def memory_sink(
    cluster: Cluster, connection: Connection, group: str, member: str, transaction_timeout_s: float = 60.0
) -> AlternatingMemorySink:
    """Return the sink of a worker: two transactional ids in turn, as on Kafka."""
    one, other = (
        MemorySink(cluster, connection, group, own, transaction_timeout_s) for own in transactional_ids(member)
    )
    return AlternatingMemorySink(one, other)


def end_request(sink: AlternatingMemorySink) -> Callable[[], None]:
    """Return what carries out the commit of the open transaction, for a request that arrives late."""
    now = sink.now
    assert isinstance(now, MemorySink)
    return now.end_request(committed=True)
