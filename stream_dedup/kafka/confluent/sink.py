"""The outputs on confluent-kafka: a transactional producer.

* The client does not divide a batch that the broker finds too large: no batch is larger than ``message.max.bytes``, the
  size of the largest source record with its headers, which every output topic takes.
* Reports of deliveries wait in the client until ``flush``, and only failures are reported. Where a transaction failed,
  records of it are reported as dropped, and not why. The client answers with the reason when it is asked to begin a
  transaction, which it cannot do in that state.
* Offsets that the group refused are not kept by the client; the transaction can only be aborted.
* Offsets are sent without a limit where the coordinator of the group goes away: whatever time-out it was given, the
  client waits until the connection to some broker changes (seen with librdkafka 2.16). So another thread sends them,
  and a call that is late is left there: ``renew`` makes another producer, which fences the one of that call.
* An error that the client calls fatal ends the producer. ``renew`` makes another one for each try.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_dedup.kafka.confluent.client import (
    CLIENT_EXCEPTIONS,
    drop_unsent,
    error_of,
    make_sender,
    port_error_of,
    within,
)
from stream_dedup.kafka.confluent.source import client_offset
from stream_dedup.kafka.connection import REQUEST_TIMEOUT_MS
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES
from stream_dedup.kafka.sink import DELIVERY_MS, TransactionalSink
from stream_dedup.ports import (
    CommittedOffset,
    Membership,
    Output,
    Partition,
    PassingError,
    PortError,
)

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

MOST_BATCH_BYTES = 1_000_000
"""With batches of 256 KiB a record of 3 kB costs twice the processor time."""
SINK_LINGER_MS = 5
"""Records of one transaction are gathered into few requests; ``flush`` does not wait for this time."""
LEAST_TRANSACTION_MS = 1_000
"""The client takes no shorter time-out."""
OFFSETS_MARGIN_S = 1.0
"""The client's own error says more, where it comes: it has so much longer than its time-out."""
STATE_S = 1.0
"""To ask for the producer's state, which no broker is asked for."""
FULL_WAIT_S = 0.1
"""One wait for room, where too much is unsent."""


class ConfluentSink(TransactionalSink[Producer]):
    """Producers of confluent-kafka."""

    client_exceptions = CLIENT_EXCEPTIONS

    def __init__(self, config: Config, *ids: str, record_bytes: int = DEFAULT_RECORD_BYTES) -> None:
        super().__init__(config, *ids, record_bytes=record_bytes)
        self._transaction_ms = max(int(config.kafka.transaction_timeout_s * 1_000), LEAST_TRANSACTION_MS)
        self._delivery_s = min(DELIVERY_MS, self._transaction_ms) / 1_000
        self._failed: list[KafkaError] = []

    def begin(self) -> None:
        self._failed = []
        super().begin()

    def send(self, outputs: Iterable[Output]) -> None:
        producer = self._connected()
        with self._failures():
            for topic, key, value, headers, timestamp_ms in outputs:
                deadline = time.monotonic() + self._delivery_s
                while True:
                    try:
                        producer.produce(topic, value, key, headers=headers, timestamp=timestamp_ms)  # type: ignore[arg-type] # it takes values that are None
                    except BufferError as error:
                        if time.monotonic() > deadline:
                            raise PassingError(f"no room for another record within {self._delivery_s:g} s") from error
                        producer.poll(FULL_WAIT_S)
                    else:
                        break

    def _send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        committed = [client_offset(at, offset) for at, offset in offsets.items()]
        limit_s = self._delivery_s
        try:
            with self._failures():
                within(
                    limit_s + OFFSETS_MARGIN_S,
                    # Neither it nor the producer has a name here: see ``within``.
                    partial(self._connected().send_offsets_to_transaction, committed, membership.proof, limit_s),
                )
        except TimeoutError as error:
            raise PassingError(f"the group did not take the offsets within {self._delivery_s:g} s") from error

    def flush(self) -> None:
        with self._failures():
            left = self._connected().flush(self._delivery_s)
            if self._failed:
                raise KafkaException(self._failed[0])
        if left:
            raise PassingError(f"{left} records were not acknowledged within {self._delivery_s:g} s")

    def _connect(self, transactional_id: str) -> Producer:
        return make_sender(
            self._kafka,
            self._note_failure,
            self._record_bytes,
            client_id=transactional_id,
            transactional_id=transactional_id,
            transaction_timeout_ms=self._transaction_ms,
            socket_timeout_ms=min(REQUEST_TIMEOUT_MS, self._transaction_ms),
            delivery_timeout_ms=int(self._delivery_s * 1_000),
            linger_ms=SINK_LINGER_MS,
            batch_size=MOST_BATCH_BYTES,
        )

    def _initialise(self) -> None:
        self._connected().init_transactions(self._kafka.broker_wait_s)

    def _drop(self, producer: Producer) -> None:
        drop_unsent(producer)
        self._failed = []

    def _note_failure(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _causes(self, error: Exception) -> list[PortError]:
        return [port_error_of(one) for one in (error_of(error), *self._failed, *self._state_errors())]

    def _state_errors(self) -> list[KafkaError]:
        """Return the error that led to the producer's state, if known: what the state forbids is answered with it.

        The call is made in a thread that handles no error. An error that the client raises while another is handled it
        keeps for good, and with its frames a producer, which goes on initialising and fences the next one.
        """
        if not self._producers:
            return []
        try:
            within(STATE_S, self._connected().begin_transaction)
        except CLIENT_EXCEPTIONS as error:
            return [error_of(error)]
        except TimeoutError:  # the other causes are told
            return []
        return []
