"""What the sinks of both clients have in common: the life of their producers, and the names of their failures.

A worker has two transactional ids in turn, so that a transaction does not wait for the end of the one before. A commit
is answered when its outcome is certain; the broker then writes markers to all partitions of the transaction, and
refuses another transaction of the same id meanwhile. A client that begins the next one at once asks again and again for
some 5 to 20 ms. With another id it is taken at once. Rules:

* One transaction is open at a time: the next one begins when the commit of the one before was answered. So none can be
  committed that follows one whose outcome is not certain.
* Records of the one before were acknowledged before: they are first in their partitions. Readers of committed records
  wait for its markers where they are not there yet.
* Offsets of both may wait for their markers in the group at once. Whichever comes first, the broker keeps those that
  were sent later.
* ``renew`` settles both, and fences earlier producers of both, before either is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from stream_dedup.kafka.connection import REQUEST_TIMEOUT_MS
from stream_dedup.kafka.errors import port_errors
from stream_dedup.kafka.hanging_transactions import abort_hanging
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    Membership,
    NotAMemberError,
    Partition,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
    VerdictSink,
)

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

DELIVERY_MS = REQUEST_TIMEOUT_MS + 1_000
"""Records or offsets that are not acknowledged in this time fail their transaction; a new producer tries again."""
REFUSALS = (NotAMemberError, RecordTooLargeError, RefusedByBrokerError)
"""Errors that leave the outcome of a commit or an abort unknown."""


class _TransactionalProducer(Protocol):
    """What both clients call alike."""

    def begin_transaction(self) -> None: ...

    def commit_transaction(self) -> None: ...

    def abort_transaction(self) -> None: ...


P = TypeVar("P", bound=_TransactionalProducer)


class TransactionalSink(VerdictSink, ABC, Generic[P]):
    """A producer for each transactional id; one transaction at a time is open, of the ids in turn."""

    client_exceptions: ClassVar[tuple[type[Exception], ...]]
    """What a call of the client raises."""

    def __init__(self, config: Config, *ids: str, record_bytes: int = DEFAULT_RECORD_BYTES) -> None:
        """Connect with the first ``renew``; ``record_bytes``: the largest record without our headers."""
        self._kafka = config.kafka
        self._record_bytes = record_bytes
        self._ids = ids
        self._producers: list[P] = []
        self._turn = -1
        """The id of the transaction that was begun last; -1 before the first, for the producer that was made last."""

    def begin(self) -> None:
        """Begin a transaction, of the id whose turn it is."""
        self._turn = (self._turn + 1) % len(self._ids)
        with self._failures():
            self._connected().begin_transaction()

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        if membership.generation < 0:
            raise NotAMemberError("the membership has no generation: the group would not check the offsets")
        self._send_offsets(offsets, membership)

    def commit(self) -> None:
        """Commit; blocks as the client does."""
        with self._passing_for(*REFUSALS):
            self._connected().commit_transaction()

    def abort(self) -> None:
        """Abort; blocks as the client does."""
        with self._passing_for(*REFUSALS):
            self._connected().abort_transaction()

    def renew(self) -> None:
        """Start again under the same transactional ids; the broker settles what earlier producers left open."""
        self._discard()
        try:
            with self._passing_for(FencedError):
                for own in self._ids:
                    self._producers.append(self._connect(own))
                    self._initialise()
        except PortError:
            self._discard()
            raise

    def abort_hanging(self) -> list[str]:
        with port_errors():
            return abort_hanging(self._kafka, self._ids[0])

    def close(self) -> None:
        self._discard()

    @abstractmethod
    def _connect(self, transactional_id: str) -> P:
        """Make a producer."""

    @abstractmethod
    def _initialise(self) -> None:
        """Initialise the transactions of the producer that was made last; blocks up to ``broker_wait_s``."""

    @abstractmethod
    def _send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets."""

    @abstractmethod
    def _drop(self, producer: P) -> None:
        """Drop a producer, and what it has not sent."""

    @abstractmethod
    def _causes(self, error: Exception) -> list[PortError]:
        """Return what may have led to an error of the client: of the call, of records, of the producer's state."""

    def _discard(self) -> None:
        producers, self._producers, self._turn = self._producers, [], -1
        while producers:
            self._drop(producers.pop())

    def _connected(self) -> P:
        """Return the producer of the transaction that was begun last."""
        if not self._producers:
            raise PassingError("the transactional producer is not started: renew it")
        return self._producers[self._turn]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise errors of the client as those of the ports: the first that has a lasting cause."""
        try:
            yield
        except self.client_exceptions as error:
            raise self._cause(error) from error

    def _cause(self, error: Exception) -> PortError:
        # A name for the causes in the frame that raises one of them would be a circle of references.
        causes = self._causes(error)
        return next((one for one in causes if not isinstance(one, PassingError)), causes[0])

    @contextmanager
    def _passing_for(self, *kinds: type[PortError]) -> Iterator[None]:
        """Raise ``PassingError`` for errors whose reason shows in the next ``renew``."""
        try:
            with self._failures():
                yield
        except kinds as error:
            raise PassingError(str(error)) from error
