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

from kafka import TopicPartition
from kafka.admin import TransactionState
from kafka.errors import AuthorizationError, KafkaError, RetriableError, TransactionalIdNotFoundError

from stream_dedup.kafka.admin import described_group
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_admin, make_producer
from stream_dedup.kafka.errors import while_passing

if TYPE_CHECKING:
    from kafka import KafkaAdminClient
    from kafka.admin import TransactionListing

    from stream_dedup.config.model import KafkaConfig
    from stream_dedup.ports import Partition

log = logging.getLogger(__name__)

ANSWER_S = 2.0
"""A broker that is up answers within so many seconds, a reconnection included."""
_OPEN = tuple(
    state.value for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
)

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
    """The transactions of a cluster that have not ended, as far as its brokers told."""

    listed: tuple[TransactionListing, ...]
    silent: Mapping[int, KafkaError]
    """Brokers that are up and did not answer, each with its last error."""
    down: tuple[int, ...]
    """Brokers that are registered and down."""

    @property
    def ongoing(self) -> list[str]:
        """Ids of those whose end is not decided."""
        return [one.transactional_id for one in self.listed if one.state is TransactionState.ONGOING]


def open_transactions(admin: KafkaAdminClient) -> OpenTransactions:
    """Ask every broker of the cluster as it is now for the transactions of its coordinators that have not ended.

    The client itself asks the brokers that it learned of up to five minutes ago. A broker that does not answer within
    ``ANSWER_S`` is left out. Raises what the client raises, but for those.
    """
    brokers = admin.describe_cluster()["brokers"]
    listed: list[TransactionListing] = []
    silent: dict[int, KafkaError] = {}
    for broker in (one["broker_id"] for one in brokers if not one.get("is_fenced")):
        try:
            ask = partial(admin.list_transactions, [broker], state_filters=_OPEN)
            listed += while_passing(ANSWER_S, ask)[broker]
        except RetriableError as error:
            silent[broker] = error
    return OpenTransactions(tuple(listed), silent, tuple(one["broker_id"] for one in brokers if one.get("is_fenced")))


@dataclass(frozen=True, slots=True)
class Holding:
    """A transaction whose first record in a partition is where readers of committed records wait."""

    producer_id: int
    transactional_id: str | None
    """None if no coordinator has named it: there is none that knows it, or this client may not describe it."""
    since_ms: int
    """When it began, ms since 1970; without a transactional id, the time of the producer's last record."""
    until_ms: int | None
    """When its coordinator aborts it, None without a transactional id."""


def holding_transactions(
    admin: KafkaAdminClient, stable: Mapping[Partition, int], opened: OpenTransactions
) -> dict[Partition, Holding | None]:
    """Return the transaction that begins at the last stable offset of each partition; one that has ended is left out.

    None stands for one that this client may not see: that needs Read of the topic. Raises what the client raises.
    """
    try:
        described = admin.describe_producers([TopicPartition(*at) for at in stable])
    except AuthorizationError as error:
        log.debug("producers of %s: %r", sorted(stable), error)
        return dict.fromkeys(stable)
    holding = {
        at: producer
        for at, offset in stable.items()
        for producer in described[TopicPartition(*at)].active_producers
        if producer.current_transaction_start_offset == offset
    }
    names = {one.producer_id: one.transactional_id for one in opened.listed}
    times = {own: _times(admin, own) for own in {names.get(one.producer_id) for one in holding.values()} if own}
    found: dict[Partition, Holding | None] = {}
    for at, producer in holding.items():
        own = names.get(producer.producer_id)
        since_ms, until_ms = times.get(own or "") or (producer.last_timestamp, None)
        found[at] = Holding(producer.producer_id, None if until_ms is None else own, since_ms, until_ms)
    return found


def _times(admin: KafkaAdminClient, transactional_id: str) -> tuple[int, int] | None:
    """Return when a transaction began and when it is aborted at the latest, None if it has just ended."""
    try:
        found = admin.describe_transactions([transactional_id])[transactional_id]
    except TransactionalIdNotFoundError:
        return None
    began = int(found.transaction_start_time_ms)
    return None if began < 0 else (began, began + int(found.transaction_timeout_ms))


def _abort(kafka: KafkaConfig, transactional_id: str) -> None:
    producer = make_producer(kafka, transactional_id=transactional_id)
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=CLOSE_TIMEOUT_S)
