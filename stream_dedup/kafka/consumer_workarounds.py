"""Workarounds for kafka-python's consumer: joins of the group, assignment, fetched records, committed offsets.

As ``client_workarounds``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import cycle
from typing import TYPE_CHECKING, Any

from kafka import OffsetAndMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.assignors.abstract import ConsumerProtocolAssignment
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import CorruptRecordError, KafkaError, TopicAuthorizationFailedError, UnsupportedCodecError
from kafka.record.default_records import DefaultRecordBatch

from stream_dedup.kafka.errors import BY_ANOTHER_RELEASE, FROM_ANOTHER_REPLICA
from stream_dedup.ports import Partition, UnreadableError

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition


class _UntakenJoin:
    """A join of the client's, never done in its eyes: it takes the outcome, and then forgets the join by itself."""

    is_done = False

    def __init__(self, join: Any) -> None:  # noqa: ANN401 - the client is untyped
        self.add_callback = join.add_callback
        self.add_errback = join.add_errback


@cache
def take_finished_joins() -> None:
    """Let the client take the outcome of a join that ends between two polls; done once for the process.

    A poll whose time runs out leaves the join to go on. If it has ended when the next poll looks, the client ignores
    the outcome and joins anew, which makes every other member join again: with short polls on a busy machine, members
    rejoin one after the other for minutes. An unfinished join is waited for, so this shows every join as unfinished.
    """

    def get(self: BaseCoordinator) -> _UntakenJoin | None:
        join: _UntakenJoin | None = vars(self)["_join_task"]
        return join

    def replace(self: BaseCoordinator, join: Any) -> None:  # noqa: ANN401 - the client is untyped
        vars(self)["_join_task"] = None if join is None else _UntakenJoin(join)

    BaseCoordinator._join_task = property(get, replace)


def keep_rejoining(consumer: KafkaConsumer) -> None:
    """Complete a rejoin that has begun.

    The client rejoins after the metadata of the topics has changed, but clears the reason once it has computed an
    assignment: if the time of a poll runs out just then, the join is never completed, without an error. The client does
    not clear the flag that this sets.
    """
    if consumer._coordinator.rejoining:
        consumer._coordinator.request_rejoin()


def _unreadable(partition: TopicPartition, offset: int, cause: Exception) -> UnreadableError:
    kind = type(cause).__name__
    reason = str(cause) if kind in str(cause) else f"{kind}: {cause}"
    remedy = BY_ANOTHER_RELEASE if isinstance(cause, UnsupportedCodecError) else FROM_ANOTHER_REPLICA
    return UnreadableError(Partition(*partition), offset, reason, remedy)


class _NamedRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # the client has no types
    """The records of one response for a partition, which name the partition and the offset that cannot be decoded."""

    def _unpack_records(self, *given: Any) -> Iterator[Any]:  # noqa: ANN401 - the client is untyped
        try:
            yield from super()._unpack_records(*given)
        except Exception as error:
            self.drain()  # fetched again by the next poll
            raise _unreadable(self.topic_partition, self.next_fetch_offset, error) from error


def name_undecoded(consumer: KafkaConsumer) -> None:
    """Let a poll raise ``UnreadableError`` for records that cannot be decoded, and raise it again when polled again.

    The client raises whatever its decoders do, mostly without a partition: an error of a compression library, for one.
    It keeps what it could not decode, too, and a further poll would take no record of it, again and again, for ever.
    """
    fetcher = consumer._fetcher
    fetcher.PartitionRecords = _NamedRecords
    parse = fetcher._parse_fetched_data

    def parse_fetched(fetched: Any) -> Any:  # noqa: ANN401 - the client is untyped
        try:
            return parse(fetched)
        except KafkaError as error:
            # The broker cannot read its log, or has sent no whole batch: of the latter the client has no class.
            if type(error) not in {CorruptRecordError, KafkaError}:
                raise
            raise _unreadable(fetched.topic_partition, fetched.fetched_offset, error) from error

    fetcher._parse_fetched_data = parse_fetched


def refuse_unauthorized_topics(consumer: KafkaConsumer) -> None:
    """Raise for topics that the client may not describe: it leaves them out, and is given no partition of them.

    Raises:
        TopicAuthorizationFailedError: names the topics.
    """
    refused = consumer._cluster.unauthorized_topics & (consumer.subscription() or set())
    if refused:
        raise TopicAuthorizationFailedError(", ".join(sorted(refused)))


def drop_fetched(consumer: KafkaConsumer) -> None:
    """Drop the records that the client has fetched and not returned, and the errors; the caller seeks every partition.

    The client sets the records of a paused partition aside, returns them later only in some states, and fetches no more
    of that partition: it would stay silent, without an error. It keeps an error for the next poll, too, though it may
    be about a position that was left.
    """
    fetcher = consumer._fetcher
    fetcher._next_partition_records = fetcher._next_in_line_exception_metadata = fetcher._cached_log_truncation = None
    fetcher._paused_partition_records.clear()
    fetcher._paused_completed_fetches.clear()


def drop_fetched_of(consumer: KafkaConsumer, partition: TopicPartition) -> None:
    """Drop what was fetched of one paused partition; the caller seeks it afterwards.

    A fetch that was under way when the partition was paused is set aside when it ends. The client would return its
    records if the new position is the old one, even where the topic was recreated in between.
    """
    fetcher = consumer._fetcher
    fetcher._paused_partition_records.pop(partition, None)
    fetcher._paused_completed_fetches.pop(partition, None)
    for fetch in [one for one in fetcher._completed_fetches if one.topic_partition == partition]:
        fetcher._completed_fetches.remove(fetch)


def return_set_aside(consumer: KafkaConsumer) -> None:
    """Let the next poll return what was set aside of partitions that are not paused any more.

    The client sets the records of a paused partition aside and fetches no more of that partition. It returns them only
    while no records of another partition are in line, and takes records that were all returned for such: where another
    partition went on meanwhile, the resumed one would stay silent, without an error.
    """
    in_line = consumer._fetcher._next_partition_records
    if in_line is not None and not in_line:
        consumer._fetcher._next_partition_records = None


def position_of(consumer: KafkaConsumer, partition: TopicPartition) -> OffsetAndMetadata | None:
    """Return how far a partition was read, None where the client has just lost it.

    The client moves it past markers of transactions and aborted records, which are returned to nobody, with the leader
    epoch of the last batch before it. ``position`` may ask the brokers first, and raises what it finds out about other
    partitions.
    """
    state = consumer._subscription.assignment.get(partition)
    return None if state is None else state.position


def seek_with_epoch(consumer: KafkaConsumer, partition: TopicPartition, offset: int, epoch: int) -> None:
    """Seek, and let the client compare the leader epoch of the record before the offset: ``seek`` takes no epoch.

    Raises:
        KeyError: the partition is not assigned.
    """
    consumer._subscription.assignment[partition].seek(OffsetAndMetadata(offset, "", epoch))


class RoundRobinAssignor(RoundRobinPartitionAssignor):  # type: ignore[misc]
    """The client's, and where members read different topics each partition goes to a member that reads its topic.

    The client's raises KeyError there, in the member that is the leader of the group: it ends, and then the next one.
    Members read different topics while ``topics.input`` is changed in one worker after the other.
    """

    @classmethod
    def assign(cls, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:  # noqa: ANN401 - the client is untyped
        """Return the partitions of each member: in turn, static members first, in the order of their ids."""
        ordered = sorted(
            members, key=lambda one: (one.group_instance_id is None, one.group_instance_id or "", one.member_id)
        )
        reads = {one.member_id: set(one.metadata.topics) for one in ordered}
        shares: dict[str, dict[str, list[int]]] = {member: {} for member in reads}
        turns = cycle(reads)
        for topic in sorted(set().union(*reads.values())):
            for partition in sorted(cluster.partitions_for_topic(topic) or ()):
                member = next(one for one in turns if topic in reads[one])
                shares[member].setdefault(topic, []).append(partition)
        return {
            member: ConsumerProtocolAssignment(cls.version, sorted(share.items()), b"")
            for member, share in shares.items()
        }


class RawName(str):
    """A header's name that is not UTF-8: text with escapes to read, and the bytes that came when it is sent."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> RawName:
        """Make a name of these bytes."""
        name = cls(raw, "utf-8", "backslashreplace")
        name.raw = raw
        return name

    def encode(self, *_: object) -> bytes:
        """Return the bytes that came, in whatever encoding."""
        return self.raw


class _NameBuffer(bytes):
    """Bytes whose parts are decoded to names."""

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - as that of bytes
        part = super().__getitem__(at)
        return _NameBuffer(part) if isinstance(part, bytes) else part

    def decode(self, *_: object) -> str:
        try:
            return super().decode()
        except UnicodeDecodeError:
            return RawName.of(bytes(self))


@cache
def read_any_header_name() -> None:
    """Read records whose header names are not UTF-8; done once for the process.

    Neither the broker nor every client requires it, and this client calls the whole batch corrupt: one record of such a
    producer would end every consumer. A batch with such a name is read again, in a buffer that decodes any name.
    """
    read = DefaultRecordBatch._read_msg

    def read_leniently(self: DefaultRecordBatch) -> Any:  # noqa: ANN401 - the client's record
        try:
            return read(self)
        except UnicodeDecodeError:
            self._buffer = _NameBuffer(self._buffer)
            return read(self)

    DefaultRecordBatch._read_msg = read_leniently
