"""The life of a transactional producer, which the sinks of both clients have in common; names of its failures."""

from __future__ import annotations

import time
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
)

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

DELIVERY_MS = REQUEST_TIMEOUT_MS + 1_000
"""Records or offsets that are not acknowledged in this time fail their transaction; a new producer tries again."""
LEAST_START_S = 1.0
"""The least time for a producer to be initialised, when connecting has used up the wait for a broker."""
REFUSALS = (NotAMemberError, RecordTooLargeError, RefusedByBrokerError)
"""Errors that leave the outcome of a commit or an abort unknown."""


class _TransactionalProducer(Protocol):
    """What both clients call alike."""

    def begin_transaction(self) -> None: ...

    def commit_transaction(self) -> None: ...

    def abort_transaction(self) -> None: ...


P = TypeVar("P", bound=_TransactionalProducer)


class TransactionalSink(ABC, Generic[P]):
    """What the sinks of both clients have in common: the life of their producer, and the names of its failures."""

    client_exceptions: ClassVar[tuple[type[Exception], ...]]
    """What a call of the client raises."""

    def __init__(self, config: Config, transactional_id: str, record_bytes: int = DEFAULT_RECORD_BYTES) -> None:
        """Connect with the first ``renew``; ``record_bytes``: the largest record without our headers."""
        self._kafka = config.kafka
        self._record_bytes = record_bytes
        self._id = transactional_id
        self._producer: P | None = None

    def begin(self) -> None:
        """Begin a transaction."""
        with self._failures():
            self._connected().begin_transaction()

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets."""
        if membership.generation < 0:
            msg = "the membership has no generation: the group would not check the offsets"
            raise NotAMemberError(msg)
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
        """Start again under the same transactional id; blocks up to ``broker_wait_s``.

        The broker settles the open transaction of an earlier producer.
        """
        self._discard()
        deadline = time.monotonic() + self._kafka.broker_wait_s
        try:
            with self._passing_for(FencedError):
                self._producer = self._connect()
                self._initialise(max(LEAST_START_S, deadline - time.monotonic()))
        except PortError:
            self._discard()
            raise

    def abort_hanging(self) -> list[str]:
        """Abort the open transactions of this group's workers that are no members any more; return their ids."""
        with port_errors():
            return abort_hanging(self._kafka, self._id)

    def close(self) -> None:
        """Close without settling an open transaction."""
        self._discard()

    @abstractmethod
    def _connect(self) -> P:
        """Make a producer."""

    @abstractmethod
    def _initialise(self, limit_s: float) -> None:
        """Initialise the producer's transactions."""

    @abstractmethod
    def _send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets."""

    @abstractmethod
    def _discard(self) -> None:
        """Drop the producer, and what it has not sent."""

    @abstractmethod
    def _causes(self, error: Exception) -> list[PortError]:
        """Return what may have led to an error of the client: of the call, of records, of the producer's state."""

    def _connected(self) -> P:
        if self._producer is None:
            msg = "the transactional producer is not started: renew it"
            raise PassingError(msg)
        return self._producer

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
