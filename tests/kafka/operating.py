"""What an operator does to topics: deletes one, or follows the advice of a message that names commands of Kafka."""

from __future__ import annotations

import re

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from stream_dedup.kafka.admin import topic_ids
from tests.waiting import wait_until

GONE_LIMIT_S = 60
"""Usually some milliseconds."""

_COMMAND = re.compile(
    r"kafka-configs\.sh --bootstrap-server \S+ --alter --entity-type topics --entity-name (\S+) --add-config (\S+)"
)


def follow(admin: KafkaAdminClient, message: str) -> list[str]:
    """Do what each command in the message does; return the names of the topics.

    The broker answers before it has applied the changes to itself.
    """
    commands = _COMMAND.findall(message)
    assert commands, message
    for topic, pairs in commands:
        changes = dict(pair.split("=") for pair in pairs.split(","))
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])
    return [topic for topic, _ in commands]


def delete_topic(admin: KafkaAdminClient, name: str) -> None:
    """Wait until the broker no longer knows it."""
    admin.delete_topics([name])
    wait_until(lambda: not topic_ids(admin, [name]), GONE_LIMIT_S, f"topic {name} is gone")
