"""Hanging transactions: a worker that was killed leaves its transaction open, and another worker aborts it.

An open transaction holds back every read_committed reader, and the worker that takes the partitions over, until
the broker aborts it at its time-out. After each rebalance a worker therefore looks for open transactions of its
group whose worker is no longer a member, and initialises a producer under their transactional id: the broker then
aborts them at once.

This may abort the transaction of a worker that is alive but was removed from the group. That does no harm: the
worker could not commit it any more, and goes on with a new producer.

A worker has two transactional ids (``transactional_ids``), ``<group>-<UUID>``, which is the client id of the member,
too, and the same with ``-2`` behind it: so open transactions can be compared with the list of members.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_admin, make_producer
from stream_dedup.broker.retry import while_passing
from stream_dedup.broker.workarounds import describe_group

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import KafkaConfig

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SECOND = "-2"


def transactional_ids(member_id: str) -> tuple[str, str]:
    """Return the two ids of a worker's transactions, given its client id in the group."""
    return member_id, member_id + _SECOND


def abort_hanging(kafka: KafkaConfig, own_id: str) -> list[str]:
    """Abort the open transactions of workers that are no longer members; return their transactional ids.

    Several workers may call this at once. Blocks up to ``broker_wait_s`` while a coordinator is replaced. After a
    failure the next rebalance tries again, or the broker aborts the transactions at their time-out.

    Raises:
        KafkaError, UnavailableError: not all of them are aborted.
    """
    with closing(make_admin(kafka)) as admin:
        hanging = while_passing(kafka, lambda: hanging_transactions(admin, kafka.group)) - {*transactional_ids(own_id)}
        for transactional_id in sorted(hanging):
            # Again: another worker may have aborted it meanwhile, or its own worker may be back.
            if transactional_id in while_passing(kafka, lambda: hanging_transactions(admin, kafka.group)):
                _abort(kafka, transactional_id)
    return sorted(hanging)


def hanging_transactions(admin: KafkaAdminClient, group: str) -> set[str]:
    """Return the ids of open transactions of a group's workers that are no members. Raises what the client raises."""
    members = _members(admin, group)
    return {own for own in _open_transactions(admin, group) if own.removesuffix(_SECOND) not in members}


def _open_transactions(admin: KafkaAdminClient, group: str) -> set[str]:
    ours = re.compile(f"{re.escape(group)}-{_UUID}(?:{_SECOND})?")
    listed = admin.list_transactions(state_filters=["Ongoing"])
    return {
        listing.transactional_id
        for listings in listed.values()
        for listing in listings
        if ours.fullmatch(listing.transactional_id)
    }


def _members(admin: KafkaAdminClient, group: str) -> set[str]:
    return {member["client_id"] for member in describe_group(admin, group)["members"]}


def _abort(kafka: KafkaConfig, transactional_id: str) -> None:
    producer = make_producer(kafka, transactional_id=transactional_id)
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=CLOSE_TIMEOUT_S)
