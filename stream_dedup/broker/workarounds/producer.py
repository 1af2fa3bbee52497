"""Workarounds for the producer: its thread, and its transactions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafka.errors import KafkaError, KafkaTimeoutError

from stream_dedup.broker.workarounds.private import private

if TYPE_CHECKING:
    from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.structs import ConsumerGroupMetadata

log = logging.getLogger(__name__)


def keep_transaction_requests(producer: KafkaProducer) -> None:
    """Keep the requests of a transaction from being lost while its coordinator is away.

    The client takes a request from its queue and waits for a connection to the coordinator. If there is none yet, it
    puts the request back; but if the wait fails with an error (connection refused), it drops the request, and a commit
    waits for the answer to a request that was never sent. This makes a failed wait return "not yet".
    """
    client = private(producer, "_sender", "_client")
    wait = private(client, "await_ready")

    def await_ready(node_id: int | str, timeout_ms: float) -> bool:
        try:
            return bool(wait(node_id, timeout_ms=timeout_ms))
        except KafkaError as error:
            log.debug("node %s: %r", node_id, error)
            return False

    client.await_ready = await_ready


def end_sender(producer: KafkaProducer) -> None:
    """End the thread of a producer that gave up closing because something was left to send."""
    private(producer, "_sender", "force_close")()


def send_offsets_within(
    producer: KafkaProducer,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    membership: ConsumerGroupMetadata,
    limit_s: float,
) -> None:
    """Add offsets to the transaction, within a limit: the client has none, and tries for ever where a topic is gone.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    result = private(producer, "_transaction_manager", "send_offsets_to_transaction")(offsets, membership)
    private(producer, "_sender", "wakeup")()
    if not result.wait(timeout_ms=limit_s * 1_000):
        msg = f"the group did not take the offsets within {limit_s:g} s"
        raise KafkaTimeoutError(msg)


def drop_refused_offsets(producer: KafkaProducer) -> None:
    """Forget offsets that the group refused: the client would commit them with the next transaction."""
    private(producer, "_transaction_manager", "_pending_txn_offset_commits").clear()


def error_of_producer(producer: KafkaProducer) -> KafkaError | None:
    """Return the error that led to the producer's error state; the client only repeats that there was one."""
    error: KafkaError | None = private(producer, "_transaction_manager", "last_error")
    return error


def initialise_producer(producer: KafkaProducer, limit_s: float) -> None:
    """Initialise the transactions, within a limit of its own: the client's is for every call.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    limit_ms = producer.config["max_block_ms"]
    producer.config["max_block_ms"] = int(limit_s * 1_000)
    try:
        producer.init_transactions()
    finally:
        producer.config["max_block_ms"] = limit_ms
