"""What a killed worker leaves open, settled by those who live.

A worker that dies in a transaction holds back every read_committed reader, and whoever
takes its partitions over, until the broker aborts the transaction at its time-out. So after
each rebalance a worker looks for open transactions of its group whose worker is no longer a
member, and initialises a producer under their id: that aborts them at once.

A worker that is alive and was thrown out of the group may be hit as well. That is right: what it holds
could not be committed any more, and it goes on with a new producer.

A transactional id is ``<group>-<UUID>`` and every member's client id is its transactional id: that
is how an open transaction is held against the list of members.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from kafka.errors import KafkaError

from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_admin, make_producer
from stream_dedup.errors import StreamDedupError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def settle_for_the_dead(kafka: KafkaConfig, own_id: str) -> list[str]:
    """Abort the open transactions of this group's dead workers; gives their ids.

    Safe to call from several workers at once. What fails now is settled by the next rebalance, or by the
    broker at the transaction's time-out.
    """
    try:
        admin = make_admin(kafka)
        try:
            orphans = _orphans(admin, kafka.group) - {own_id}
            for orphan in sorted(orphans):
                if orphan in _orphans(admin, kafka.group):  # another survivor may have been here, or its worker is back
                    _abort(kafka, orphan)
        finally:
            admin.close()
    except (KafkaError, OSError, StreamDedupError) as error:
        log.warning("open transactions of dead workers could not be settled (%r); the broker will, in time", error)
        return []
    return sorted(orphans)


def _orphans(admin: KafkaAdminClient, group: str) -> set[str]:
    return _open_transactions(admin, group) - _members(admin, group)


def _open_transactions(admin: KafkaAdminClient, group: str) -> set[str]:
    ours = re.compile(re.escape(group) + "-" + _UUID)
    listed = admin.list_transactions(state_filters=["Ongoing"])
    return {
        listing.transactional_id
        for listings in listed.values()
        for listing in listings
        if ours.fullmatch(listing.transactional_id)
    }


def _members(admin: KafkaAdminClient, group: str) -> set[str]:
    described = admin.describe_groups([group])
    return {member["client_id"] for member in described[group]["members"]}


def _abort(kafka: KafkaConfig, transactional_id: str) -> None:
    producer = make_producer(kafka, transactional_id=transactional_id)
    try:
        producer.init_transactions()
        log.info("the open transaction of a dead worker (%s) is aborted", transactional_id)
    finally:
        producer.close(timeout=CLOSE_TIMEOUT_S)
