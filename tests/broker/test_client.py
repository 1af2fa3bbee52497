"""What the client does when its broker goes away, on one of the test's own."""

import subprocess
import sys
from contextlib import closing

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic

from stream_dedup.broker.client import make_admin
from stream_dedup.broker.group_offsets import committed_offsets
from stream_dedup.config.load import load_config
from stream_dedup.dev.broker import DevBroker
from tests.waiting import wait_until

AT = TopicPartition("articles", 0)
GROUP = "group"
LIMIT_S = 60


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_commit_that_begins_while_the_broker_is_away(own_broker: DevBroker) -> None:
    """It is done when the broker is back: no request of the transaction is lost on the way."""
    brokers = own_broker.bootstrap
    kafka = load_config(overrides={"kafka": {"brokers": brokers, "group": GROUP}}, environment={}).kafka
    with closing(make_admin(kafka)) as admin:
        admin.create_topics([NewTopic(AT.topic, 1, 1)])
    command = [sys.executable, "-m", "tests.broker.committing", brokers, AT.topic, GROUP]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as committing:
        try:
            assert committing.stdout is not None
            assert committing.stdout.readline() == b"sent\n"
            own_broker.kill()
            own_broker.restart()
            assert committing.wait(LIMIT_S) == 0
        finally:
            committing.kill()
    with closing(make_admin(kafka)) as admin:
        wait_until(lambda: committed_offsets(admin, GROUP).get(AT, (0,))[0] == 7, LIMIT_S, "the offset is committed")
