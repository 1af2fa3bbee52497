"""The ports on kafka-python.

``broker.clients`` makes the ports of a worker, of this package or of ``broker.confluent``. ``kafka_audit_ports`` makes
those of an audit, ``kafka_follow_ports`` those of what follows the output topics. No error of the client leaves a port:
``port_errors`` maps each to the error of ``ports`` that names the reaction. ``Partition`` and the client's
``TopicPartition`` are converted here alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from stream_dedup.broker.adapter.alternating_sink import AlternatingSink
from stream_dedup.broker.adapter.clock import SystemClock
from stream_dedup.broker.adapter.fingerprint_log import KafkaLog
from stream_dedup.broker.adapter.group import KafkaOffsets
from stream_dedup.broker.adapter.marked_sink import KafkaMarkedSink
from stream_dedup.broker.adapter.sink import KafkaSink
from stream_dedup.broker.adapter.source import KafkaSource
from stream_dedup.broker.adapter.topic_follower import KafkaTopicFollower
from stream_dedup.broker.adapter.topic_reader import KafkaTopicReader
from stream_dedup.broker.log import WaitingLog
from stream_dedup.ports import AuditPorts, FollowPorts

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

__all__ = [
    "AlternatingSink",
    "KafkaLog",
    "KafkaMarkedSink",
    "KafkaOffsets",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicFollower",
    "KafkaTopicReader",
    "SystemClock",
    "connect_log",
    "kafka_audit_ports",
    "kafka_follow_ports",
]


def connect_log(config: Config) -> WaitingLog:
    """Connect to a group's log; the caller closes it.

    Raises:
        UnavailableError: no broker can be reached, or it refuses this client.
    """
    return WaitingLog(KafkaLog(config.kafka, config.log_topic), config)


@contextmanager
def kafka_audit_ports(config: Config) -> Iterator[AuditPorts]:
    """Connect the ports of an audit, and close them.

    Raises:
        UnavailableError: no broker can be reached, or it refuses this client.
    """
    with ExitStack() as stack:
        yield AuditPorts(
            log=stack.enter_context(closing(KafkaLog(config.kafka, config.log_topic))),
            offsets=stack.enter_context(closing(KafkaOffsets(config.kafka))),
            reader=stack.enter_context(closing(KafkaTopicReader(config.kafka))),
            clock=SystemClock(),
        )


@contextmanager
def kafka_follow_ports(config: Config) -> Iterator[FollowPorts]:
    """Make the ports of a follower of the output topics, which connect at their first use, and close them."""
    topic = config.topics.clusters
    with ExitStack() as stack:
        sink = None
        if topic is not None:
            sink = stack.enter_context(
                closing(KafkaMarkedSink(config, topic, config.mark_group, f"{config.kafka.group}-clusters"))
            )
        yield FollowPorts(
            follower=stack.enter_context(closing(KafkaTopicFollower(config.kafka))),
            reader=stack.enter_context(closing(KafkaTopicReader(config.kafka))),
            offsets=stack.enter_context(closing(KafkaOffsets(config.kafka))),
            sink=sink,
            clock=SystemClock(),
        )
