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

import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError
from kafka.partitioner import StickyPartitioner
from kafka.structs import ConsumerGroupMetadata

from stream_dedup.kafka.admin import offset_and_metadata
from stream_dedup.kafka.client_workarounds import (
    drop_refused_offsets,
    error_of_producer,
    send_offsets_within,
    stable_offset,
)
from stream_dedup.kafka.connection import (
    discard,
    make_admin,
    make_producer,
)
from stream_dedup.kafka.errors import port_error, port_errors, while_passing
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES, HEADER_ALLOWANCE_BYTES
from stream_dedup.kafka.sink import DELIVERY_MS, TransactionalSink
from stream_dedup.kafka.source import OFFSET_REQUEST_MS
from stream_dedup.ports import (
    CommittedOffset,
    MarkedSink,
    Membership,
    NotAMemberError,
    Output,
    Partition,
    PortError,
    PublishedMark,
)

if TYPE_CHECKING:
    from kafka.future import Future

    from stream_dedup.config.model import Config

PRODUCER_BATCH_BYTES = 256 << 10
"""Size of the producer's batches: a few requests for each transaction, not hundreds."""
_STORE_ID = "format=1;store_id="


class KafkaSink(TransactionalSink[KafkaProducer]):
    """Producers of kafka-python."""

    client_exceptions = (KafkaError,)

    def __init__(self, config: Config, *ids: str, record_bytes: int = DEFAULT_RECORD_BYTES) -> None:
        super().__init__(config, *ids, record_bytes=record_bytes)
        self._sent: list[Future] = []

    def begin(self) -> None:
        self._sent = []
        super().begin()

    def send(self, outputs: Iterable[Output]) -> None:
        with self._failures():
            producer = self._connected()
            for topic, key, value, headers, timestamp_ms in outputs:
                self._sent.append(producer.send(topic, value, key, headers, timestamp_ms=timestamp_ms))

    def _send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        committed = {TopicPartition(*at): offset_and_metadata(offset) for at, offset in offsets.items()}
        self.send_client_offsets(committed, membership.proof)

    def send_client_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], proof: ConsumerGroupMetadata
    ) -> None:
        """Add offsets in the client's terms, of the group that the proof names; as ``send_offsets``."""
        try:
            with self._failures():
                send_offsets_within(self._connected(), offsets, proof, DELIVERY_MS / 1_000)
        except NotAMemberError:
            drop_refused_offsets(self._connected())
            raise

    def flush(self) -> None:
        with self._failures():
            for future in self._sent:
                future.get(timeout=DELIVERY_MS / 1_000)

    def _connect(self, transactional_id: str) -> KafkaProducer:
        with port_errors():
            return make_producer(
                self._kafka,
                partitioner=StickyPartitioner(),
                transactional_id=transactional_id,
                transaction_timeout_ms=int(self._kafka.transaction_timeout_s * 1_000),
                batch_size=PRODUCER_BATCH_BYTES,
                max_request_size=self._record_bytes + HEADER_ALLOWANCE_BYTES,
                delivery_timeout_ms=DELIVERY_MS,
                client_id=transactional_id,
            )

    def _initialise(self) -> None:
        self._connected().init_transactions()

    def _drop(self, producer: KafkaProducer) -> None:
        self._sent = []
        discard(producer)

    def _causes(self, error: Exception) -> list[PortError]:
        causes: list[BaseException] = [error, *(future.exception for future in self._sent if future.failed())]
        if self._producers and (state := error_of_producer(self._connected())) is not None:
            causes.append(state)
        return [port_error(cause) for cause in causes]


class KafkaMarkedSink(MarkedSink):
    """Transactions of records and a mark.

    The mark is a committed offset of a consumer group without members: of partition 0 of the topic that is published
    on. Its number is the sequence of the store, and its metadata is ``format=1;store_id=UUID``. A group without members
    takes offsets without proof of a membership; what fences two publishers from each other is the transactional id.
    """

    def __init__(self, config: Config, topic: str, group: str, transactional_id: str) -> None:
        """Connect with the first ``renew``; ``group`` keeps the mark."""
        self._kafka = config.kafka
        self._group = group
        self._partition = TopicPartition(topic, 0)
        self._sink = KafkaSink(config, transactional_id)

    def renew(self) -> PublishedMark | None:
        self._sink.renew()
        with port_errors(), closing(make_admin(self._kafka)) as admin:
            ask = partial(stable_offset, admin, self._group, self._partition, OFFSET_REQUEST_MS)
            return _mark_of(while_passing(self._kafka.broker_wait_s, ask))

    def publish(self, outputs: Iterable[Output], mark: PublishedMark) -> None:
        self._sink.begin()
        self._sink.send(outputs)
        metadata = f"{_STORE_ID}{uuid.UUID(bytes=mark.store_id)}"
        self._sink.send_client_offsets(
            {self._partition: OffsetAndMetadata(mark.sequence, metadata, -1)}, ConsumerGroupMetadata(self._group)
        )
        self._sink.flush()
        self._sink.commit()

    def close(self) -> None:
        self._sink.close()


def _mark_of(found: OffsetAndMetadata) -> PublishedMark | None:
    """Return the mark that a committed offset stands for; None: another program, or a person, committed it."""
    text = str(found.metadata or "")
    if found.offset < 0 or not text.startswith(_STORE_ID):
        return None
    try:
        return PublishedMark(uuid.UUID(text.removeprefix(_STORE_ID)).bytes, int(found.offset))
    except ValueError:
        return None
