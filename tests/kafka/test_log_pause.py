"""A pause of the log on confluent-kafka."""

import time
from contextlib import ExitStack

from confluent_kafka import TopicPartition

from stream_dedup.core.model import LogOffset
from stream_dedup.dev.broker import DevBroker
from stream_dedup.kafka.confluent.fingerprint_log import ConfluentLog
from stream_dedup.kafka.connection import FETCH_WAIT_MS
from stream_dedup.ports import FingerprintLog
from tests.contract.kafka_world import WAIT_LIMIT_S, KafkaWorld
from tests.logs import rules
from tests.waiting import wait_until

FETCH_S = 5 * FETCH_WAIT_MS / 1_000
"""In this time a fetch that is under way has ended, and a new one would have."""


def fetched_end(log: FingerprintLog) -> int:
    """The end of the log as of the client's last fetch."""
    assert isinstance(log, ConfluentLog)
    end: int = log._consumer.get_watermark_offsets(TopicPartition(*log._partition), cached=True)[1]
    return end


def test_the_client_fetches_nothing_during_a_pause(broker: DevBroker) -> None:
    """It else fetches each record as soon as it is there, in a thread of its own, polled or not."""
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack, client="confluent")
        group = world.name("group")
        world.make_log(group)
        follower, writer = (world.ports(group, f"{group}-{role}").log for role in ("follower", "writer"))
        writer.append(rules(1)).wait(WAIT_LIMIT_S)
        follower.seek(LogOffset(0))
        wait_until(lambda: len(follower.poll(0.1)) == 1, WAIT_LIMIT_S, "the first record is read")
        follower.pause()
        time.sleep(FETCH_S)
        writer.append(rules(2)).wait(WAIT_LIMIT_S)
        time.sleep(FETCH_S)
        assert fetched_end(follower) == 1
        wait_until(lambda: len(follower.poll(0.1)) == 1, WAIT_LIMIT_S, "the second record is read")
        writer.append(rules(3)).wait(WAIT_LIMIT_S)
        wait_until(lambda: fetched_end(follower) == 3, WAIT_LIMIT_S, "the third record is fetched without a poll")
