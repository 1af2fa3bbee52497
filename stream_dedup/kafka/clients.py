"""Chooses the Kafka client of a worker: kafka-python, or confluent-kafka with ``kafka.client = "confluent"``.

The choice is about the articles and the outputs. The log, what a worker asks about topics and groups, and all other
commands use kafka-python. No error of a client leaves a port: ``errors``
and ``confluent.client`` map it to the error of ``ports`` that names the reaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from stream_dedup.errors import UserError
from stream_dedup.extras import need_packages
from stream_dedup.kafka.admin import AdminConnection, KafkaOffsets, topic_ids
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_admin
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.fingerprint_log import KafkaLog
from stream_dedup.kafka.hanging_transactions import transactional_ids
from stream_dedup.kafka.kafka_python.sink import KafkaMarkedSink, KafkaSink
from stream_dedup.kafka.kafka_python.source import KafkaSource
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.readers import KafkaTopicFollower, KafkaTopicReader
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES
from stream_dedup.ports import AuditPorts, Clock, FollowPorts, WorkerPorts

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.ports import (
        ArticleSource,
        FingerprintLog,
        VerdictSink,
    )


def check_client(config: Config) -> None:
    """Refuse a client that is not installed.

    Raises:
        UserError: names the package.
    """
    if config.kafka.client == "confluent":
        need_packages('kafka.client = "confluent"', "confluent", "confluent_kafka")


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
    check_client(config)
    make_source: Callable[[Config, str, AdminConnection], ArticleSource] = KafkaSource
    make_sink: Callable[..., VerdictSink] = KafkaSink
    if config.kafka.client == "confluent":
        from stream_dedup.kafka.confluent import sink, source  # noqa: PLC0415 - an extra

        make_source, make_sink = source.ConfluentSource, sink.ConfluentSink
    offsets = KafkaOffsets(config.kafka)
    return WorkerPorts(
        source=make_source(config, member_id, offsets),
        log=log,
        sink=make_sink(config, *transactional_ids(member_id), record_bytes=record_bytes),
        offsets=offsets,
        clock=SystemClock(),
    )


def connect_log(config: Config, remedy: str | None = None) -> WaitingLog:
    """Connect to a group's log; the caller closes it.

    Raises:
        UserError: there is no such topic; only looked for with a ``remedy``, which the message then ends with.
        UnavailableError: no broker can be reached, or it refuses this client.
    """
    if remedy is not None:
        with closing(make_admin(config.kafka)) as admin:
            if config.log_topic not in patiently(config.kafka, "topics", lambda: topic_ids(admin, [config.log_topic])):
                raise UserError(f"there is no log {config.log_topic}; {remedy}")
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


class SystemClock(Clock):
    """The machine's clock and its threads."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def event(self) -> threading.Event:
        return threading.Event()

    def spawn(self, name: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread


def call_limit_s(config: Config) -> float:
    """Return how long one call to the broker may take before the worker ends: longer than the wait for a broker."""
    return max(config.worker.watchdog_s, config.kafka.broker_wait_s + CLOSE_TIMEOUT_S)
