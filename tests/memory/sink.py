"""The port ``VerdictSink`` in memory: the alternation of ``kafka.sink``, with producers on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from stream_dedup.config.model import Config
from stream_dedup.kafka.hanging_transactions import hanging_of, transactional_ids
from stream_dedup.kafka.sink import TransactionalSink
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    Membership,
    Output,
    Partition,
    PassingError,
    PortError,
    RefusedByBrokerError,
)
from tests.memory.broker import Cluster
from tests.memory.group import Group
from tests.memory.partition import Message
from tests.memory.runtime import Connection, hooked
from tests.memory.transactions import Session

LONGEST_TRANSACTION_S = 900.0
"""The broker's default for ``transaction.max.timeout.ms``, in seconds."""
COMPLETING_S = 60.0
"""The longest wait for the control records of the transaction before: longer than any of them takes."""


class MemoryProducer:
    """Transactions of records and offsets, under one transactional id. It raises errors of the ports."""

    def __init__(self, cluster: Cluster, connection: Connection, transactional_id: str) -> None:
        """``fence`` starts it."""
        self.connection = connection
        self._cluster = cluster
        self._id = transactional_id
        self._session: Session | None = None
        self._is_open = False
        self._failed: PortError | None = None

    @hooked("sink.renew")
    def fence(self, timeout_s: float) -> None:
        """Fence the producers before and abort what is open: the coordinator's part of ``init_transactions``."""
        if timeout_s > LONGEST_TRANSACTION_S:
            raise RefusedByBrokerError("the transaction timeout is larger than the broker's maximum")
        known = self._cluster.transactions.renew(self._id, timeout_s)
        self._session = Session(known, known.epoch)

    @hooked("sink.renewed")
    def wait_for_markers(self) -> None:
        """Wait until the transaction before has its control records."""
        if self._session is not None:
            self._await_completed(self._session)

    @hooked("sink.begin")
    def begin_transaction(self) -> None:
        if self._is_open:
            raise RuntimeError("a transaction is open already")
        self._is_open = True
        self._failed = None

    def send(self, output: Output) -> None:
        """Send a record in the background, as the client does: a failure shows in ``flush``."""
        session = self._open_session()
        if self._failed is None:
            try:
                self._produce(session, output)
            except PortError as error:
                self._failed = error

    @hooked("sink.send")
    def _produce(self, session: Session, output: Output) -> None:
        self._await_completed(session)
        message = Message(output.key, output.value, output.headers, output.timestamp_ms)
        partition = self._partition_of(output.topic, output.key)
        self._cluster.transactions.produce(session, self._cluster.partition(partition), message)

    @hooked("sink.send_offsets")
    def send_offsets(
        self, group: Group, offsets: Mapping[Partition, CommittedOffset], membership: Membership | None = None
    ) -> None:
        """Add offsets; without a membership, of a group without members."""
        session = self._open_session()
        self._await_completed(session)
        if session.fenced:
            raise FencedError(self._id)
        if membership is not None:
            group.check(membership.proof)
        self._cluster.transactions.add_offsets(session, group, offsets)

    @hooked("sink.flush")
    def flush(self) -> None:
        self._open_session()
        if self._failed is not None:
            raise self._failed

    @hooked("sink.commit")
    def commit_transaction(self) -> None:
        """Commit, whatever became of the records: only ``flush`` tells."""
        self._end(committed=True)

    @hooked("sink.abort")
    def abort_transaction(self) -> None:
        self._end(committed=False)

    def commit_request(self) -> Callable[[], None]:
        """Return what carries out the commit of the open transaction, for a request that arrives late."""
        session = self._open_session()

        def commit() -> None:
            if not session.fenced:
                self._cluster.transactions.end(session, committed=True)

        return commit

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
                raise PassingError(f"the transaction before of {self._id} does not complete")
            runtime.wait(session.of.completed, left)

    def _end(self, *, committed: bool) -> None:
        self._cluster.transactions.end(self._open_session(), committed=committed)
        self._is_open = False

    def _open_session(self) -> Session:
        if self._session is None or not self._is_open:
            raise RuntimeError("no transaction is open")
        return self._session

    def _partition_of(self, topic: str, key: bytes | None) -> Partition:
        count = self._cluster.partition_counts().get(topic, 1)
        return Partition(topic, sum(key or b"") % count)


class MemorySink(TransactionalSink[MemoryProducer]):
    """A worker's outputs, under its two transactional ids; or under ``ids``."""

    client_exceptions = (PortError,)

    def __init__(self, cluster: Cluster, connection: Connection, config: Config, *ids: str) -> None:
        """``renew`` starts the producers."""
        super().__init__(config, *ids)
        self.connection = connection
        self._cluster = cluster
        self._group = cluster.group(config.kafka.group)

    def send(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            self._connected().send(output)

    def flush(self) -> None:
        self._connected().flush()

    def send_mark(self, group: Group, offsets: Mapping[Partition, CommittedOffset]) -> None:
        """Add offsets of a group without members."""
        self._connected().send_offsets(group, offsets)

    @hooked("sink.abort_hanging")
    def abort_hanging(self) -> list[str]:
        ongoing = sorted(self._cluster.transactions.ongoing())
        hanging = hanging_of(self._kafka.group, ongoing, self._group.client_ids()) - {*self._ids}
        for name in sorted(hanging):
            self._cluster.transactions.abort(name)
        return sorted(hanging)

    @hooked("sink.close")
    def close(self) -> None:
        super().close()

    def commit_request(self) -> Callable[[], None]:
        """Return what carries out the commit of the open transaction, for a request that arrives late."""
        return self._connected().commit_request()

    def _connect(self, transactional_id: str) -> MemoryProducer:
        return MemoryProducer(self._cluster, self.connection, transactional_id)

    def _initialise(self) -> None:
        self._connected().fence(self._kafka.transaction_timeout_s)
        self._connected().wait_for_markers()

    def _send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        self._connected().send_offsets(self._group, offsets, membership)

    def _drop(self, producer: MemoryProducer) -> None:
        """What is open stays open at the cluster."""

    def _causes(self, error: Exception) -> list[PortError]:
        assert isinstance(error, PortError)
        return [error]


def memory_sink(cluster: Cluster, connection: Connection, config: Config, member: str) -> MemorySink:
    """Return the sink of a worker."""
    return MemorySink(cluster, connection, config, *transactional_ids(member))
