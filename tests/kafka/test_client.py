"""A client whose broker goes away."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic

from stream_dedup.config.load import load_config
from stream_dedup.dev.broker import DevBroker
from stream_dedup.kafka.admin import committed_offsets
from stream_dedup.kafka.connection import make_admin, make_producer
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
