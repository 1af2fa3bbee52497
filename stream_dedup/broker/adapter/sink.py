"""The outputs on Kafka: a transactional producer.

What the client leaves to its caller:

* ``commit_transaction`` commits a transaction even if records of it were dropped. ``flush`` therefore waits for every
  record.
* Offsets that the group refused are kept, even over an abort, and go with the next transaction: articles of another
  worker would be skipped. They are removed after a refusal.
* A producer in a fatal state stays in it, and calls every later request an invalid transition. ``renew`` therefore
  makes another producer for each try, and the error that led to the state is the one that is raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from stream_dedup.broker.adapter.group import offset_and_metadata
from stream_dedup.broker.adapter.port_errors import port_error, port_errors
from stream_dedup.broker.client import REQUEST_TIMEOUT_MS, discard, make_producer
from stream_dedup.broker.hanging_transactions import abort_hanging
from stream_dedup.broker.retry import RETRY_S
from stream_dedup.broker.workarounds import (
    drop_refused_offsets,
    error_of_producer,
    initialise_producer,
    send_offsets_within,
)
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    Membership,
    NotAMemberError,
    Output,
    Partition,
    PassingError,
    PortError,
)

if TYPE_CHECKING:
    from kafka.future import Future

    from stream_dedup.config.model import Config

log = logging.getLogger(__name__)

PRODUCER_BATCH_BYTES = 256 << 10
"""Size of the producer's batches: a few requests for each transaction, not hundreds."""
DELIVERY_MS = REQUEST_TIMEOUT_MS + 1_000
"""Records or offsets that are not acknowledged in this time fail their transaction; a new producer tries again."""


class KafkaSink:
    """Implements ``ports.VerdictSink``."""

    def __init__(self, config: Config, transactional_id: str) -> None:
        """Connect with the first ``renew``."""
        self._kafka = config.kafka
        self._id = transactional_id
        self._producer: KafkaProducer | None = None
        self._sent: list[Future] = []

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent = []
        with self._failures():
            self._connected().begin_transaction()

    def send(self, output: Output) -> None:
        """Send one record."""
        with self._failures():
            self._sent.append(
                self._connected().send(
                    output.topic,
                    key=output.key,
                    value=output.value,
                    headers=output.headers,
                    timestamp_ms=output.timestamp_ms,
                )
            )

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets."""
        if membership.generation < 0:
            msg = "the membership has no generation: the group would not check the offsets"
            raise NotAMemberError(msg)
        committed = {TopicPartition(*at): offset_and_metadata(offset) for at, offset in offsets.items()}
        try:
            with self._failures():
                send_offsets_within(self._connected(), committed, membership.proof, DELIVERY_MS / 1_000)
        except NotAMemberError:
            drop_refused_offsets(self._connected())
            raise

    def flush(self) -> None:
        """Return when the broker has acknowledged every record of the transaction."""
        with self._failures():
            for future in self._sent:
                future.get(timeout=DELIVERY_MS / 1_000)

    def commit(self) -> None:
        """Commit."""
        with self._unknown_outcomes():
            self._connected().commit_transaction()

    def abort(self) -> None:
        """Abort."""
        with self._unknown_outcomes():
            self._connected().abort_transaction()

    def renew(self) -> None:
        """Start again under the same transactional id; blocks up to ``broker_wait_s``."""
        deadline = time.monotonic() + self._kafka.broker_wait_s
        while True:
            self._discard()
            try:
                self._connect(deadline)
            except (PassingError, FencedError) as error:
                if time.monotonic() > deadline:
                    msg = f"the transactional producer cannot start within {self._kafka.broker_wait_s:g} s: {error}"
                    raise PassingError(msg) from error
                log.debug("the transactional producer: %s", error)
            else:
                return
            time.sleep(RETRY_S)

    def abort_hanging(self) -> list[str]:
        """Abort the open transactions of this group's workers that are no members any more; return their ids."""
        with port_errors():
            return abort_hanging(self._kafka, self._id)

    def close(self) -> None:
        """Close without settling an open transaction."""
        self._discard()

    def _connect(self, deadline: float) -> None:
        """Make a producer and initialise it: the broker settles the open transaction of an earlier one."""
        with port_errors():
            self._producer = make_producer(
                self._kafka,
                transactional_id=self._id,
                transaction_timeout_ms=int(self._kafka.transaction_timeout_s * 1_000),
                batch_size=PRODUCER_BATCH_BYTES,
                delivery_timeout_ms=DELIVERY_MS,
                client_id=self._id,
            )
        try:
            with self._failures():
                initialise_producer(self._producer, max(RETRY_S, deadline - time.monotonic()))
        except PortError:
            self._discard()
            raise

    def _connected(self) -> KafkaProducer:
        if self._producer is None:
            msg = "the transactional producer is not started: renew it"
            raise PassingError(msg)
        return self._producer

    def _discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise errors of the client as those of the ports, named after what led to them."""
        try:
            yield
        except KafkaError as error:
            raise self._cause(error) from error

    @contextmanager
    def _unknown_outcomes(self) -> Iterator[None]:
        """Raise ``PassingError`` for whatever went wrong; a refusal shows again in ``renew``."""
        try:
            with self._failures():
                yield
        except (FencedError, PassingError):
            raise
        except PortError as error:
            raise PassingError(str(error)) from error

    def _cause(self, error: KafkaError) -> PortError:
        """Return the first error with a lasting cause: of the call, of a record, of the producer's state."""
        causes = [error, *(future.exception for future in self._sent if future.failed())]
        if self._producer is not None and (state := error_of_producer(self._producer)) is not None:
            causes.append(state)
        found = [port_error(cause) for cause in causes]
        return next((one for one in found if not isinstance(one, PassingError)), found[0])
