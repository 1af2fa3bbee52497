"""Topics by pattern on a broker: one that is made later, deleted and recreated is read by workers of both clients."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import make_admin, make_producer
from stream_dedup.worker import Step
from tests.contract.kafka_world import CLIENTS
from tests.kafka.operating import delete_topic
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.pipeline import Pipeline, stop_all

WITHIN_S = 30.0
"""From the making of a topic until its articles are judged."""
OFTEN = ("stream_dedup.worker.source.MATCH_INTERVAL_S=1", "stream_dedup.worker.source.LOOK_UP_INTERVAL_S=0.5")
"""Topics are listed more often than every ten seconds (``test_topic_watch``)."""
ARTICLES = 20


def write(made: Pipeline, topic: str, partitions: int) -> None:
    """Write articles to each partition of a topic."""
    with closing(make_producer(made.config().kafka, acks="all")) as producer:
        for number in range(ARTICLES * partitions):
            text = f"Article {number} of {topic}, of {time.monotonic_ns()}: the ferry left the harbour at dawn."
            value = json.dumps({"id": f"{topic}-{number}", "text": text}).encode()
            producer.send(topic, value, partition=number % partitions)
        producer.flush(60)


def make_topic(admin: KafkaAdminClient, name: str, partitions: int) -> bytes:
    admin.create_topics({name: {"num_partitions": partitions}}, wait_for_metadata=True)
    return topic_ids(admin, [name])[name]


def judged(made: Pipeline) -> Counter[tuple[bytes, int]]:
    """Outputs by the topic id and the partition of their articles."""
    return Counter((stamp.coordinates.topic_id, stamp.coordinates.partition) for _, _, stamp in made.outputs())


def wait_judged(made: Pipeline, topic_id: bytes, partitions: int, limit_s: float) -> None:
    wanted = {(topic_id, number): ARTICLES for number in range(partitions)}
    wait_until(lambda: judged(made).items() >= wanted.items(), limit_s, f"{partitions} partitions are judged")


def both_read(made: Pipeline, topic: str) -> bool:
    """Whether the last assignment of each worker has a partition of the topic."""
    return all(f"{topic}-" in made.log(client).rpartition("partitions assigned: ")[2] for client in CLIENTS)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_topics_that_match_are_read(make_pipeline: MakePipeline) -> None:
    """Within 30 s of being made, in one group of both clients; a topic that is recreated is another topic.

    The pattern fits the log and the outputs as well, and nothing of these is ever read.
    """
    made = make_pipeline(partitions=2)
    made.set("topics", input=[f"^{made.name}"])
    later = f"{made.name}-later"
    workers = []
    for client in CLIENTS:
        made.set("kafka", client=client)
        workers.append(made.start(client, Step.POLLED, 0, *OFTEN))
    with closing(make_admin(made.config().kafka)) as admin:
        first = topic_ids(admin, [made.topic])[made.topic]
        write(made, made.topic, 2)
        wait_judged(made, first, 2, 120)
        for _ in range(2):
            topic_id = make_topic(admin, later, 2)
            write(made, later, 2)
            wait_judged(made, topic_id, 2, WITHIN_S)
            wait_until(lambda: both_read(made, later), WITHIN_S, "both workers are given a partition")
            delete_topic(admin, later)
        # Deleted for good: both go on with what is left.
        write(made, made.topic, 2)
        wait_until(lambda: judged(made)[first, 0] == 2 * ARTICLES, 120, "the first topic is read on")
    assert {partition.topic for partition in made.committed()} <= {made.topic, later}
    stop_all(made, workers)
    made.assert_sound()
