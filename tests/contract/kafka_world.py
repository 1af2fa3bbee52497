"""The contract suite's world on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import InvalidReplicationFactorError, KafkaTimeoutError

from stream_dedup.config.load import load_config
from stream_dedup.config.model import LOG_SUFFIX, Config
from stream_dedup.kafka.admin import KafkaOffsets, offset_and_metadata, topic_ids
from stream_dedup.kafka.clients import worker_ports
from stream_dedup.kafka.confluent.sink import ConfluentSink
from stream_dedup.kafka.connection import make_admin, make_consumer, make_producer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.fingerprint_log import KafkaLog
from stream_dedup.kafka.kafka_python.sink import KafkaMarkedSink, KafkaSink
from stream_dedup.kafka.readers import KafkaTopicFollower, KafkaTopicReader
from stream_dedup.ports import Partition
from tests.contract.world import BROKER_WAIT_S, SESSION_S, TRANSACTION_S
from tests.kafka.operating import delete_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from stream_dedup.ports import (
        CommittedOffset,
        MarkedSink,
        Output,
        PublishedMark,
        SourceRecord,
        TopicFollower,
        TopicReader,
        VerdictSink,
        WorkerPorts,
    )

CLIENTS = ("kafka-python", "confluent")
WAIT_LIMIT_S = 60.0
"""A busy machine takes seconds for what takes milliseconds otherwise."""
ACKNOWLEDGED_S = 60.0
LINGER_MS = 100
"""A batch waits so long for its further records."""


class KafkaTransaction:
    """Implements ``world.OpenTransaction``."""

    def __init__(self, make: Callable[[], KafkaProducer], partition: Partition, values: Sequence[bytes]) -> None:
        self._make = make
        self._producer = make()
        self._producer.init_transactions()
        self._producer.begin_transaction()
        self.offsets = _send(self._producer, partition, values)

    def commit(self) -> None:
        self._producer.commit_transaction()
        self._end()

    def abort(self) -> None:
        self._producer.abort_transaction()
        self._end()

    def close(self) -> None:
        """Leave the transaction open."""
        self._producer.close(timeout=0)

    def _end(self) -> None:
        """Wait for the markers: the broker initialises another producer of this id only behind them."""
        self._producer.close()
        with closing(self._make()) as successor:
            successor.init_transactions()


class UnheardProducer:
    """A producer of confluent-kafka: the broker carries out its commits, and the answers are lost."""

    def __init__(self, producer: ConfluentProducer) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the producer's
        return getattr(self._producer, name)

    def commit_transaction(self, *limit_s: float) -> None:
        self._producer.commit_transaction(*limit_s)
        raise KafkaException(ClientError(ClientError._TIMED_OUT, retriable=True))


class KafkaWorld:
    """Implements ``world.World``."""

    def __init__(self, bootstrap: str, stack: ExitStack, **members: str | int) -> None:
        """Make a world; ``members`` are keys of the section ``kafka`` that only the members of its groups have."""
        self._bootstrap = bootstrap
        self._members = members
        self._stack = stack
        self._mark = uuid.uuid4().hex[:12]
        self._admin: KafkaAdminClient = make_admin(self._config("world").kafka)
        stack.callback(self._admin.close)

    def _config(self, group: str, **kafka: float | str) -> Config:
        keys = {"broker_wait_s": BROKER_WAIT_S, "session_timeout_s": SESSION_S} | kafka
        return load_config(overrides={"kafka": {"brokers": self._bootstrap, "group": group, **keys}}, environment={})

    def name(self, role: str) -> str:
        return f"{role}-{self._mark}"

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, WAIT_LIMIT_S, what)

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def make_topic(
        self, topic: str, partitions: int = 1, largest_batch: int | None = None, codec: str = "producer"
    ) -> bytes:
        """With another ``codec`` than the producer's the broker compresses every batch anew."""
        limit = {} if largest_batch is None else {"max.message.bytes": str(largest_batch)}
        self._make(topic, partitions, {"compression.type": codec, **limit})
        return self._ids(topic)[topic]

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})
        self.wait_until(
            lambda: self._admin.describe_topics([topic])[0]["partitions"][total - 1 :] != [], "they are there"
        )

    def make_log(self, group: str, codec: str = "producer") -> None:
        configs = {"message.timestamp.type": "LogAppendTime", "compression.type": codec}
        self._make(self.log_topic(group), 1, configs)

    def log_topic(self, group: str) -> str:
        return f"{group}{LOG_SUFFIX}"

    def delete_topic(self, topic: str) -> None:
        delete_topic(self._admin, topic)

    def delete_records(self, partition: Partition, before: int) -> None:
        self._admin.delete_records({TopicPartition(*partition): before})

    def write(self, partition: Partition, values: Sequence[bytes], codec: str = "none") -> list[int]:
        with closing(make_producer(self._config("world", compression=codec).kafka, acks="all")) as producer:
            return _send(producer, partition, values)

    def write_by_librdkafka(self, partition: Partition, values: Sequence[bytes], codec: str) -> None:
        """Append records as one batch."""
        settings = {"bootstrap.servers": self._bootstrap, "compression.type": codec, "linger.ms": LINGER_MS}
        producer = ConfluentProducer(settings)
        for value in values:
            producer.produce(partition.topic, value, partition=partition.number)
        assert producer.flush(ACKNOWLEDGED_S) == 0

    def open_transaction(self, partition: Partition, values: Sequence[bytes]) -> KafkaTransaction:
        kafka, transactional_id = self._config("world").kafka, f"world-{uuid.uuid4()}"
        made = KafkaTransaction(lambda: make_producer(kafka, transactional_id=transactional_id), partition, values)
        self._stack.callback(made.close)
        return made

    def committed_records(self, topic: str) -> list[SourceRecord]:
        with closing(self.topic_reader()) as reader:
            ends = self._stable_ends(topic)
            begin = {partition: first for partition, (first, _) in reader.bounds(ends).items()}
            records = reader.read({partition: (begin[partition], end) for partition, end in ends.items()})
            return sorted(records, key=lambda record: (record.partition, record.offset))

    def committed_offsets(self, group: str) -> Mapping[Partition, CommittedOffset]:
        ports = KafkaOffsets(self._config(group).kafka)
        with closing(ports):
            return ports.committed()

    def set_offset(self, group: str, partition: Partition, start: CommittedOffset) -> None:
        self._admin.alter_group_offsets(group, {TopicPartition(*partition): offset_and_metadata(start)})

    def ports(self, group: str, member: str, transaction_timeout_s: float = TRANSACTION_S) -> WorkerPorts:
        config = self._config(group, transaction_timeout_s=transaction_timeout_s, **self._members)
        made = worker_ports(config, member, KafkaLog(config.kafka, config.log_topic))
        for port in (made.source, made.log, made.sink, made.offsets):
            self._stack.callback(port.close)
        return made

    def topic_reader(self) -> TopicReader:
        return KafkaTopicReader(self._config("world").kafka)

    def topic_follower(self) -> TopicFollower:
        made = KafkaTopicFollower(self._config("world").kafka)
        self._stack.callback(made.close)
        return made

    def marked_sink(self, topic: str, group: str, transactional_id: str) -> MarkedSink:
        config = self._config("world", transaction_timeout_s=TRANSACTION_S)
        made = KafkaMarkedSink(config, topic, group, transactional_id)
        self._stack.callback(made.close)
        return made

    def publish_without_answer(self, sink: MarkedSink, outputs: Sequence[Output], mark: PublishedMark) -> None:
        with _lost_answers():
            sink.publish(outputs, mark)

    def commit_without_answer(self, sink: VerdictSink) -> None:
        if isinstance(sink, ConfluentSink):
            sink._producers[sink._turn] = UnheardProducer(sink._connected())  # type: ignore[call-overload]
            sink.commit()
        assert isinstance(sink, KafkaSink)
        with _lost_answers():
            sink.commit()

    def _make(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        request = {topic: {"num_partitions": partitions, "replication_factor": -1, "configs": configs}}

        def made() -> bool:
            try:
                self._admin.create_topics(request)
            except InvalidReplicationFactorError:
                return False  # on a busy machine the broker may be late for its own controller
            return True

        self.wait_until(made, f"topic {topic} is made")
        self._admin.wait_for_topics([topic])

    def _ids(self, topic: str) -> dict[str, bytes]:
        return patiently(self._config("world").kafka, "topics", lambda: topic_ids(self._admin, [topic]))

    def _stable_ends(self, topic: str) -> dict[Partition, int]:
        """Return how far readers of committed records get now."""
        with closing(make_consumer(self._config("world").kafka)) as consumer:
            numbers = consumer.partitions_for_topic(topic)
            ends = consumer.end_offsets([TopicPartition(topic, number) for number in numbers])
        return {Partition(*at): end for at, end in ends.items()}


def _send(producer: KafkaProducer, partition: Partition, values: Sequence[bytes]) -> list[int]:
    sent = [producer.send(partition.topic, value=value, partition=partition.number) for value in values]
    return [future.get(timeout=ACKNOWLEDGED_S).offset for future in sent]


@contextmanager
def _lost_answers() -> Iterator[None]:
    """Let the broker carry out every commit in the block, and its answer be lost."""
    commit = KafkaProducer.commit_transaction

    def commit_unheard(producer: KafkaProducer) -> None:
        commit(producer)
        raise KafkaTimeoutError("the answer was lost")

    with patch.object(KafkaProducer, "commit_transaction", commit_unheard):
        yield
