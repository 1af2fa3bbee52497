"""Clients whose broker goes away or is slow to answer."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaTimeoutError

from stream_dedup.config.load import load_config
from stream_dedup.config.model import KafkaConfig
from stream_dedup.dev.broker import DevBroker
from stream_dedup.kafka import connection as client_module
from stream_dedup.kafka.admin import committed_offsets
from stream_dedup.kafka.connection import (
    BOOTSTRAP_TIMEOUT_MS,
    FIRST_TRY_S,
    make_admin,
    make_producer,
    wait_for_broker,
)
from tests.waiting import wait_until

AT = TopicPartition("articles", 0)
GROUP = "group"
LIMIT_S = 60


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(240)
def test_commit_that_begins_while_the_broker_is_away(own_broker: DevBroker) -> None:
    """The commit is done when the broker is back: no request of the transaction is lost."""
    kafka = load_config(overrides={"kafka": {"brokers": own_broker.bootstrap, "group": GROUP}}, environment={}).kafka
    with closing(make_admin(kafka)) as admin:
        admin.create_topics([NewTopic(AT.topic, 1, 1)])
    producer = make_producer(kafka, transactional_id="committing")
    with closing(producer), ThreadPoolExecutor(1) as thread:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(AT.topic, b"article").get(LIMIT_S)
        producer.send_offsets_to_transaction({AT: OffsetAndMetadata(7, "", -1)}, GROUP)
        own_broker.kill()
        connections = producer._sender._client._manager._conns
        wait_until(lambda: not any(one.connected for one in connections.values()), LIMIT_S, "the broker is away")
        commit = thread.submit(producer.commit_transaction)
        own_broker.restart()
        commit.result(LIMIT_S)
    with closing(make_admin(kafka)) as admin:
        wait_until(
            lambda: [known.offset for known in committed_offsets(admin, GROUP).values()] == [7],
            LIMIT_S,
            "the offset is committed",
        )


@contextmanager
def slow(address: str, delay_s: float) -> Iterator[str]:
    """Yield the address of a proxy that answers the first request of a connection late."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = server.accept()
                    threading.Thread(target=connect, args=(accepted,), daemon=True).start()

        def connect(accepted: socket.socket) -> None:
            host, _, port = address.partition(":")
            with accepted, suppress(OSError), socket.create_connection((host, int(port))) as broker:
                threading.Event().wait(delay_s)  # the delay is what is tested
                threading.Thread(target=copy, args=(broker, accepted), daemon=True).start()
                copy(accepted, broker)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


@pytest.mark.expect_log("no Kafka broker answers at .* yet")
def test_a_broker_that_is_slow_to_answer_is_found(broker: DevBroker) -> None:
    """A broker is found that answers a new connection later than the first try lasts: later tries last longer."""
    with slow(broker.bootstrap, 1.5 * FIRST_TRY_S) as address:
        wait_for_broker(KafkaConfig(brokers=address, broker_wait_s=30))


@pytest.mark.expect_log("no Kafka broker answers at .* yet")
def test_no_try_lasts_longer_than_that_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries grow up to the limit of every client: a connection that stays silent does not use up the wait."""
    limits: list[float] = []

    def unanswered(bootstrap_timeout_ms: int, **_settings: object) -> None:
        limits.append(bootstrap_timeout_ms / 1_000)
        raise KafkaTimeoutError

    monkeypatch.setattr(client_module, "KafkaAdminClient", unanswered)
    wait_for_broker(KafkaConfig(broker_wait_s=600), lambda: len(limits) == 6)
    assert limits == [FIRST_TRY_S, 2.0, 4.0, *[BOOTSTRAP_TIMEOUT_MS / 1_000] * 3]
