"""Chooses the Kafka client of a worker: kafka-python, or confluent-kafka with ``kafka.client = "confluent"``.

The choice is about the articles, the log and the outputs. Commands other than those that start a worker, and what a
worker asks about topics and groups, use kafka-python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_dedup.broker.adapter import AlternatingSink, KafkaLog, KafkaOffsets, KafkaSink, KafkaSource, SystemClock
from stream_dedup.broker.client import DEFAULT_RECORD_BYTES
from stream_dedup.broker.hanging_transactions import transactional_ids
from stream_dedup.extras import need_packages
from stream_dedup.ports import WorkerPorts

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.ports import ArticleSource, FingerprintLog, VerdictSink


def worker_log(config: Config) -> FingerprintLog:
    """Return the log of a worker's group, with the configured client.

    Raises:
        UserError: the client is not installed.
        UnavailableError: no broker can be reached, or it refuses this client.
    """
    if not _is_confluent(config):
        return KafkaLog(config.kafka, config.log_topic)
    from stream_dedup.broker.confluent import ConfluentLog  # noqa: PLC0415 - an extra

    return ConfluentLog(config.kafka, config.log_topic)


def worker_ports(
    config: Config, member_id: str, log: FingerprintLog, record_bytes: int = DEFAULT_RECORD_BYTES
) -> WorkerPorts:
    """Connect the ports of a worker; ``member_id`` is its client id in the group and its first transactional id.

    ``log`` is the one that the index was opened with, ``record_bytes`` the size of the largest record that the output
    topics take with our headers.

    Raises:
        UserError: the client is not installed.
        UnavailableError: no broker can be reached, or it refuses this client.
    """
    source, sink = _source_and_sink(config, member_id, record_bytes)
    return WorkerPorts(
        source=source,
        log=log,
        sink=sink,
        offsets=KafkaOffsets(config.kafka),
        watch_offsets=KafkaOffsets(config.kafka),
        clock=SystemClock(),
    )


def check_client(config: Config) -> None:
    """Refuse a client that is not installed, or that cannot read every codec of Kafka.

    Raises:
        UserError: names the package.
    """
    if _is_confluent(config):
        from stream_dedup.broker.confluent import check_codecs  # noqa: PLC0415 - an extra

        check_codecs()


def _source_and_sink(config: Config, member_id: str, record_bytes: int) -> tuple[ArticleSource, VerdictSink]:
    if not _is_confluent(config):
        one, other = (KafkaSink(config, own, record_bytes) for own in transactional_ids(member_id))
        return KafkaSource(config, member_id), AlternatingSink(one, other)
    from stream_dedup.broker.confluent import ConfluentSink, ConfluentSource  # noqa: PLC0415 - an extra

    first, second = (ConfluentSink(config, own, record_bytes) for own in transactional_ids(member_id))
    return ConfluentSource(config, member_id), AlternatingSink(first, second)


def _is_confluent(config: Config) -> bool:
    if config.kafka.client != "confluent":
        return False
    need_packages('kafka.client = "confluent"', "confluent", "confluent_kafka")
    return True
