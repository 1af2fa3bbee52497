"""A transaction whose commit begins while the broker is away.

    python -m tests.broker.committing BROKERS TOPIC GROUP

Sends an article and the group's offset 7 and prints a line; waits until its connections are lost, commits, and
ends. A process of its own, because the client leaves the sockets of refused connections to the collector.
"""

import sys

from kafka import OffsetAndMetadata, TopicPartition

from stream_dedup.broker.client import make_producer
from stream_dedup.config.load import load_config
from tests.waiting import wait_until


def main(brokers: str, topic: str, group: str) -> None:
    kafka = load_config(overrides={"kafka": {"brokers": brokers, "group": group}}, environment={}).kafka
    producer = make_producer(kafka, transactional_id="committing")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"article").get(60)
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(7, "", -1)}, group)
    print("sent", flush=True)  # noqa: T201 - what the test waits for
    connections = producer._sender._client._manager._conns
    wait_until(lambda: not any(one.connected for one in connections.values()), 60, "the broker is away")
    producer.commit_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
