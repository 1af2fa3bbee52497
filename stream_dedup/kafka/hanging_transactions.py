"""Open transactions, and hanging ones: a worker that was killed leaves one open, and another worker aborts it.

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

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafka.admin import TransactionState
from kafka.errors import KafkaError, RetriableError

from stream_dedup.kafka.admin import described_group
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_admin, make_producer
from stream_dedup.kafka.errors import while_passing

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

ANSWER_S = 2.0
"""A broker that is up answers within so many seconds, a reconnection included."""
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
        hanging = while_passing(kafka.broker_wait_s, lambda: hanging_transactions(admin, kafka.group)) - {
            *transactional_ids(own_id)
        }
        for transactional_id in sorted(hanging):
            # Again: another worker may have aborted it meanwhile, or its own worker may be back.
            if transactional_id in while_passing(kafka.broker_wait_s, lambda: hanging_transactions(admin, kafka.group)):
                _abort(kafka, transactional_id)
    return sorted(hanging)


def hanging_transactions(admin: KafkaAdminClient, group: str) -> set[str]:
    """Return the ids of open transactions of a group's workers that are no members.

    Raises what the client raises, also where one of the brokers does not answer.
    """
    opened = open_transactions(admin)
    for error in opened.silent.values():
        raise error
    return hanging_of(group, opened.ongoing, {one.client_id for one in described_group(admin, group)[1]})


def hanging_of(group: str, ongoing: Iterable[str], members: Collection[str]) -> set[str]:
    """Return those of a group's workers that are no members, given the client ids of its members after ``ongoing``."""
    ours = re.compile(f"{re.escape(group)}-{_UUID}(?:{_SECOND})?")
    return {own for own in ongoing if ours.fullmatch(own) and own.removesuffix(_SECOND) not in members}


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The transactions of a cluster whose end is not decided, as far as its brokers told."""

    ongoing: tuple[str, ...]
    """Their transactional ids."""
    silent: Mapping[int, KafkaError]
    """Brokers that are up and did not answer, each with its last error."""
    down: tuple[int, ...]
    """Brokers that are registered and down."""


def open_transactions(admin: KafkaAdminClient) -> OpenTransactions:
    """Ask every broker of the cluster as it is now for the open transactions of its coordinators.

    The client itself asks the brokers that it learned of up to five minutes ago. A broker that does not answer within
    ``ANSWER_S`` is left out. Raises what the client raises, but for those.
    """
    brokers = admin.describe_cluster()["brokers"]
    ongoing: list[str] = []
    silent: dict[int, KafkaError] = {}
    for broker in (one["broker_id"] for one in brokers if not one.get("is_fenced")):
        try:
            ask = partial(admin.list_transactions, [broker], state_filters=(TransactionState.ONGOING.value,))
            ongoing += [one.transactional_id for one in while_passing(ANSWER_S, ask)[broker]]
        except RetriableError as error:
            silent[broker] = error
    return OpenTransactions(tuple(ongoing), silent, tuple(one["broker_id"] for one in brokers if one.get("is_fenced")))


def _abort(kafka: KafkaConfig, transactional_id: str) -> None:
    producer = make_producer(kafka, transactional_id=transactional_id)
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=CLOSE_TIMEOUT_S)
