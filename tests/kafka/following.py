"""Follows the advice of a message: the commands of Kafka's that change settings of topics."""

from __future__ import annotations

import re

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

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
