"""Transactions of records and a mark on Kafka.

The mark is a committed offset of a consumer group without members: of partition 0 of the topic that is published on.
Its number is the sequence of the store, and its metadata is ``format=1;store_id=UUID``. A group without members takes
offsets without proof of a membership; what fences two publishers from each other is the transactional id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafka import OffsetAndMetadata, TopicPartition
from kafka.structs import ConsumerGroupMetadata

from stream_dedup.broker.adapter.port_errors import port_errors
from stream_dedup.broker.adapter.sink import KafkaSink
from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_consumer
from stream_dedup.ports import Output, PublishedMark

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

_STORE_ID = "format=1;store_id="


class KafkaMarkedSink:
    """Implements ``ports.MarkedSink``."""

    def __init__(self, config: Config, topic: str, group: str, transactional_id: str) -> None:
        """Connect with the first ``renew``; ``group`` keeps the mark."""
        self._kafka = config.kafka
        self._group = group
        self._partition = TopicPartition(topic, 0)
        self._sink = KafkaSink(config, transactional_id)

    def renew(self) -> PublishedMark | None:
        """Start under the transactional id; return the mark of the last transaction that was committed."""
        self._sink.renew()
        limit_ms = int(self._kafka.broker_wait_s * 1_000)
        with port_errors():
            consumer = make_consumer(self._kafka, group_id=self._group)
            try:
                # A consumer of committed records waits for offsets that are part of a transaction.
                found = consumer.committed(self._partition, metadata=True, timeout_ms=limit_ms)
            finally:
                consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1_000))
        return None if found is None else _mark_of(found)

    def publish(self, outputs: Iterable[Output], mark: PublishedMark) -> None:
        """Commit one transaction of records and a mark."""
        self._sink.begin()
        self._sink.send(outputs)
        metadata = f"{_STORE_ID}{uuid.UUID(bytes=mark.store_id)}"
        self._sink.send_client_offsets(
            {self._partition: OffsetAndMetadata(mark.sequence, metadata, -1)}, ConsumerGroupMetadata(self._group)
        )
        self._sink.flush()
        self._sink.commit()

    def close(self) -> None:
        """Close without settling an open transaction."""
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
