"""Deleting a topic and waiting until the broker no longer knows it."""

from __future__ import annotations

from kafka import KafkaAdminClient

from stream_dedup.kafka.admin import topic_ids
from tests.waiting import wait_until

GONE_LIMIT_S = 60
"""Usually some milliseconds."""


def delete_topic(admin: KafkaAdminClient, name: str) -> None:
    admin.delete_topics([name])
    wait_until(lambda: not topic_ids(admin, [name]), GONE_LIMIT_S, f"topic {name} is gone")
